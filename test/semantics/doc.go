// SPDX-License-Identifier: Apache-2.0

// Package semantics holds docs/semantics.md to the three managers, together on
// a node without a kernel: every row of its tables, and beyond them thousands of
// small pods, which a model of a page checks that says the same rules once more.
package semantics
