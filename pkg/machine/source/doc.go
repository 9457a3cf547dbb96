// SPDX-License-Identifier: Apache-2.0

// Package source reads machines from where operators have them: this machine,
// copies of /sys, cAdvisor's reports, descriptions.
package source
