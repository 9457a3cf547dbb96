// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Edit is a few lines that are put into a file which otherwise stays the tree's
// owner's. They are written so that they change nothing where our packages are
// missing or older: a tree with half of it compiles and behaves as upstream's.
type Edit struct {
	File   string // slash-separated, beneath the tree
	Insert string
	// Above and Below are what stands there, unchanged, before and after: whole
	// lines that must be in the file exactly once.
	Above, Below string
}

// Edits are all that podslice needs, explained in docs/cfs-quota.md.
var Edits = []Edit{
	{
		File: CMDir + "/container_manager_linux.go",
		Above: `func (cm *containerManagerImpl) PodHasExclusiveCPUs(logger klog.Logger, pod *v1.Pod) bool {
`,
		Insert: `	// podslice: the CPU manager knows whether anything is left for the pod's own quota to bound.
	if advisor, ok := cm.cpuManager.(cpumanager.QuotaAdvisor); ok {
		if lifted, known := advisor.PodQuotaLifted(logger, pod, cm.CPUCFSQuotaPeriod); known {
			return lifted
		}
	}

`,
		Below: `	if utilfeature.DefaultFeatureGate.Enabled(kubefeatures.PodLevelResourceManagers) && resourcehelper.IsPodLevelResourcesSet(pod) {
`,
	},
	{
		File: CMDir + "/container_manager_linux.go",
		Above: `	return podHasExclusiveCPUs(logger, cm.cpuManager, pod)
}

`,
		Insert: `// LowerCPULimit is podslice's: the limit that a container's CFS quota is made from.
func (cm *containerManagerImpl) LowerCPULimit(pod *v1.Pod, container *v1.Container, limit *resource.Quantity) *resource.Quantity {
	if advisor, ok := cm.cpuManager.(cpumanager.QuotaAdvisor); ok {
		return advisor.LowerCPULimit(pod, container, limit, cm.CPUCFSQuotaPeriod)
	}
	return limit
}

`,
		Below: `func (cm *containerManagerImpl) ContainerHasExclusiveCPUs(logger klog.Logger, pod *v1.Pod, container *v1.Container) bool {
`,
	},
	{
		File: "pkg/kubelet/kuberuntime/kuberuntime_container_linux.go",
		Above: `	cpuLimit := getCPULimit(pod, container, draAllocations)
`,
		Insert: `	// podslice: the pod's exclusive containers may leave less than that.
	if advisor, ok := m.containerManager.(interface {
		LowerCPULimit(*v1.Pod, *v1.Container, *resource.Quantity) *resource.Quantity
	}); ok {
		cpuLimit = advisor.LowerCPULimit(pod, container, cpuLimit)
	}
`,
		Below: `
`,
	},
}

// apply returns the file with the edit. It has it already if the lines are there,
// at whatever place the owner has put them.
func (e Edit) apply(text string) (string, error) {
	if strings.Contains(text, e.Insert) {
		return text, nil
	}
	if n := strings.Count(text, e.Above+e.Below); n != 1 {
		return "", fmt.Errorf("%s has these lines %d times and not once:\n%s\nUpstream or this tree's owner has changed them. podslice has to put these between or after them:\n%s\nIf they are right there, put them in by hand and run again",
			e.File, n, e.Above+e.Below, e.Insert)
	}
	return strings.Replace(text, e.Above+e.Below, e.Above+e.Insert+e.Below, 1), nil
}

// undo returns the file without the edit; one that the owner has changed or taken
// out is theirs.
func (e Edit) undo(text string) string { return strings.Replace(text, e.Insert, "", 1) }

// planEdits returns the files that are to be other than they are: without edits
// of an earlier podslice, with ours.
func planEdits(tree string, before, edits []Edit) (map[string][]byte, error) {
	texts := map[string]string{}
	read := func(e Edit) error {
		if _, done := texts[e.File]; done {
			return nil
		}
		path := filepath.Join(tree, filepath.FromSlash(e.File))
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file: it cannot be edited safely", path)
		}
		data, err := os.ReadFile(path)
		texts[e.File] = string(data)
		return err
	}
	for _, e := range before {
		err := read(e)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	for _, e := range edits {
		if err := read(e); err != nil {
			return nil, fmt.Errorf("podslice has to edit a file of Kubernetes: %w", err)
		}
	}
	original := maps.Clone(texts)
	for _, e := range before {
		if !slices.ContainsFunc(edits, e.same) {
			texts[e.File] = e.undo(texts[e.File])
		}
	}
	var refusals []error
	for _, e := range edits {
		text, err := e.apply(texts[e.File])
		if err != nil {
			refusals = append(refusals, err)
			continue
		}
		texts[e.File] = text
	}
	if len(refusals) > 0 {
		return nil, errors.Join(refusals...)
	}
	changed := map[string][]byte{}
	for name, text := range texts {
		if text != original[name] {
			changed[name] = []byte(text)
		}
	}
	return changed, nil
}

func (e Edit) same(o Edit) bool { return e.File == o.File && e.Insert == o.Insert }

// editLine starts a line of the manifest that tells of an edit. It is a comment
// to sha256sum: the rest of the file is the owner's, so there is no digest.
const editLine = "# inserted into "

func (e Edit) line() string {
	return fmt.Sprintf("%s%s: %s\n", editLine, e.File, strconv.Quote(e.Insert))
}

// parseEdit reads such a line.
func parseEdit(line string) (Edit, error) {
	file, quoted, _ := strings.Cut(strings.TrimPrefix(line, editLine), ": ")
	insert, err := strconv.Unquote(quoted)
	if err != nil || insert == "" || !fs.ValidPath(file) {
		return Edit{}, errors.New("not a path and a quoted text")
	}
	return Edit{File: file, Insert: insert}, nil
}
