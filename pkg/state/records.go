// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
)

// Records is what the files have of every pod, for a plan that begins with it. It
// fails for a file that is not sound: what a kubelet makes of such a one depends on
// what runs.
func (f Files) Records() (cpuplan.State, memplan.Records, error) {
	cpus, memory := map[string]cpuplan.Record{}, map[string]memplan.PodRecord{}
	if f.CPU != nil {
		used := f.CPU.used()
		if len(f.CPU.integrity()) > 0 || !used.sound() || len(used.content.bad) > 0 {
			return cpuplan.State{}, memplan.Records{}, unsound(f.CPU.Path)
		}
		for uid, record := range used.content.records {
			cpus[uid] = record.Repaired()
		}
	}
	if f.Memory != nil {
		used := f.Memory.used()
		if len(f.Memory.integrity()) > 0 || !used.sound() || len(used.content.bad) > 0 {
			return cpuplan.State{}, memplan.Records{}, unsound(f.Memory.Path)
		}
		for uid, record := range used.content.pods {
			memory[uid] = record.Repaired()
		}
	}
	return cpuplan.NewState(cpus), memplan.NewRecords(memory), nil
}

func unsound(path string) error {
	return fmt.Errorf("%s is damaged: \"podslice state verify\" tells how, and \"podslice state repair\" corrects it", path)
}
