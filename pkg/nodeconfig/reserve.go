// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/quantity"
)

const memoryAvailable = "memory.available"

// signals are those that the kubelet can evict for.
var signals = []string{
	memoryAvailable, "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available",
}

// reserves is what the configuration keeps from pods.
type reserves struct {
	// cpus are reservedSystemCPUs.
	cpus cpuset.CPUSet
	// kube and system are kubeReserved and systemReserved; cpus takes the place of
	// their CPUs.
	kube, system v1.ResourceList
	// eviction is what evictionHard keeps free.
	eviction v1.ResourceList
	// unknown are the resources of which nobody can say how much is kept, because
	// a field was refused.
	unknown map[v1.ResourceName]bool
}

// sum says what is kept of a resource, and what that comes from.
func (r reserves) sum(name v1.ResourceName) string {
	var parts []string
	for _, part := range []struct {
		field string
		list  v1.ResourceList
	}{{"kubeReserved", r.kube}, {"systemReserved", r.system}, {"evictionHard[" + memoryAvailable + "]", r.eviction}} {
		q, ok := part.list[name]
		if !ok || q.IsZero() {
			continue
		}
		if !strings.HasPrefix(part.field, "eviction") {
			part.field += "." + string(name)
		}
		parts = append(parts, part.field+" "+q.String())
	}
	if len(parts) == 0 {
		return "nothing is reserved"
	}
	return strings.Join(parts, " + ")
}

// total is what is kept of each resource that the machine has.
func (r reserves) total(capacity v1.ResourceList) v1.ResourceList {
	total := v1.ResourceList{}
	for name := range capacity {
		sum := resource.NewQuantity(0, resource.DecimalSI)
		for _, list := range []v1.ResourceList{r.system, r.kube, r.eviction} {
			sum.Add(list[name])
		}
		if !sum.IsZero() {
			total[name] = *sum
		}
	}
	return total
}

// capacityOf is what the kubelet says that the machine has.
func capacityOf(info *cadvisorapi.MachineInfo) v1.ResourceList {
	capacity := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(int64(info.NumCores)*1000, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(info.MemoryCapacity), resource.BinarySI),
	}
	for _, h := range info.HugePages {
		size := h.PageSize * 1024 // cAdvisor tells KiB
		capacity[hugePages(size)] = *resource.NewQuantity(int64(size*h.NumPages), resource.BinarySI)
	}
	return capacity
}

// hugePages is the resource name of pages of a size.
func hugePages(size uint64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(int64(size), resource.BinarySI).String())
}

// allocatableOf is what the kubelet says that pods can have together. Hugepages
// are taken off ordinary memory, too.
func allocatableOf(capacity, kept v1.ResourceList) v1.ResourceList {
	allocatable := v1.ResourceList{}
	for name, has := range capacity {
		allocatable[name] = less(has, kept[name])
	}
	for name, has := range capacity {
		if name != v1.ResourceMemory && memplan.IsMemory(name) {
			allocatable[v1.ResourceMemory] = less(allocatable[v1.ResourceMemory], has)
		}
	}
	return allocatable
}

// less is a difference, at least 0.
func less(a, b resource.Quantity) resource.Quantity {
	a = a.DeepCopy()
	if a.Sub(b); a.Sign() < 0 {
		a.Set(0)
	}
	return a
}

// reserves reads what the configuration keeps from pods on the machine.
func (c *Config) reserves(m machine.Machine, capacity v1.ResourceList) (r reserves, found Findings) {
	k := &c.Kubelet
	r.unknown = map[v1.ResourceName]bool{}
	var err error
	r.cpus, err = parseCPUs(k.ReservedSystemCPUs)
	r.unknown[v1.ResourceCPU] = err != nil // checkKubelet tells it
	online := m.Online()
	if missing := r.cpus.Difference(online); !missing.IsEmpty() {
		r.unknown[v1.ResourceCPU] = true
		fix := ""
		if left := r.cpus.Intersection(online); !left.IsEmpty() {
			fix = quoted(left)
		}
		found.refuse("reservedSystemCPUs", fix, "CPUs %s are reserved, but the machine has the CPUs %s: %s are missing", r.cpus, online, missing)
	}
	kube, system := maps.Clone(k.KubeReserved), maps.Clone(k.SystemReserved)
	if n := r.cpus.Size(); n > 0 {
		delete(kube, "cpu")
		if system == nil {
			system = map[string]string{}
		}
		system["cpu"] = strconv.Itoa(n)
	}
	for _, list := range []struct {
		field  string
		values map[string]string
		into   *v1.ResourceList
	}{{"kubeReserved", kube, &r.kube}, {"systemReserved", system, &r.system}} {
		*list.into = v1.ResourceList{}
		for _, name := range slices.Sorted(maps.Keys(list.values)) {
			amount, err := reservedQuantity(name, list.values[name])
			if err != nil {
				found.refuse(list.field+"."+name, amountFix(list.values[name]), "%v", err)
				r.unknown[v1.ResourceName(name)] = true
				continue
			}
			(*list.into)[v1.ResourceName(name)] = amount
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionHard)) {
		kept, err := evictionQuantity(signal, k.EvictionHard[signal], capacity[v1.ResourceMemory])
		if err != nil {
			found.refuse("evictionHard["+signal+"]", amountFix(k.EvictionHard[signal]), "%v", err)
			r.unknown[v1.ResourceMemory] = r.unknown[v1.ResourceMemory] || signal == memoryAvailable
		} else if signal == memoryAvailable && kept != nil {
			r.eviction = v1.ResourceList{v1.ResourceMemory: *kept}
		}
	}
	return r, found
}

// amountFix is the amounts that were probably meant by one with a unit that there is
// not: 500MB is 500M, or 500Mi.
func amountFix(text string) string {
	trimmed := strings.TrimSpace(text)
	number := strings.TrimRight(trimmed, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(trimmed[len(number):]))
	number = strings.TrimSpace(number)
	var fixes []string
	switch unit {
	case "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "ki", "mi", "gi", "ti":
		binary := strings.ToUpper(unit[:1]) + "i"
		fixes = append(fixes, number+binary)
		if !strings.Contains(unit, "i") {
			fixes = append(fixes, number+strings.ReplaceAll(strings.ToUpper(unit[:1]), "K", "k"))
		}
	case "b", "byte", "bytes", "":
		fixes = append(fixes, number)
	}
	for _, fix := range fixes {
		if _, err := quantity.Parse(fix); err != nil || fix == text {
			return ""
		}
	}
	return strings.Join(fixes, " or ")
}

// reservedQuantity reads one value of kubeReserved or systemReserved.
func reservedQuantity(name, text string) (resource.Quantity, error) {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "pid":
	default:
		return resource.Quantity{}, fmt.Errorf("of %q nothing can be reserved, only of cpu, memory, ephemeral-storage and pid", name)
	}
	amount, err := quantity.Parse(text)
	if err != nil {
		return amount, fmt.Errorf("it is %.80q: %w", text, err)
	}
	if amount.Sign() < 0 {
		return amount, fmt.Errorf("it is %s, but nothing negative can be reserved", text)
	}
	if v1.ResourceName(name) == v1.ResourceCPU {
		// The kubelet rounds to thousandths of a CPU.
		amount.SetMilli((amount.ScaledValue(resource.Micro) + 500) / 1000)
	}
	return amount, nil
}

// evictionQuantity reads a threshold. It is nil when the kubelet ignores it, and
// what it means in bytes is only right for memory.
func evictionQuantity(signal, text string, memory resource.Quantity) (*resource.Quantity, error) {
	if !slices.Contains(signals, signal) {
		return nil, fmt.Errorf("the kubelet cannot evict for %q, only for %s", signal, strings.Join(signals, ", "))
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		if text == "0%" || text == "100%" {
			return nil, nil
		}
		// As precise as the kubelet is: the result must be the same byte.
		percentage, err := strconv.ParseFloat(strings.TrimRight(number, "%"), 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no percentage: %w", text, err)
		}
		share := float32(percentage) / 100
		if share < 0 || share > 1 {
			return nil, fmt.Errorf("%s is not between 0%% and 100%%", text)
		}
		return resource.NewQuantity(int64(float64(memory.Value())*float64(share)), resource.BinarySI), nil
	}
	amount, err := quantity.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it is %.80q, which is no percentage: %w", text, err)
	}
	if amount.Sign() <= 0 {
		return nil, fmt.Errorf("it is %s, but must be more than 0", text)
	}
	return &amount, nil
}

// ReservedSystemCPUs is the CPUs that the configuration names as reserved; an
// amount alone does not say which. It fails for what is no list of CPUs.
func (c *Config) ReservedSystemCPUs() (cpuplan.Set, error) {
	cpus, err := parseCPUs(c.Kubelet.ReservedSystemCPUs)
	if err != nil {
		return cpuplan.Set{}, fmt.Errorf("reservedSystemCPUs: %q is no list of CPUs: %w", c.Kubelet.ReservedSystemCPUs, err)
	}
	return cpuplan.NewSet(cpus.UnsortedList()...), nil
}

// inWords is an error of parseCPUs, unless it is of Go's about a number.
func inWords(err error) string {
	var number *strconv.NumError
	if errors.As(err, &number) || strings.Contains(err.Error(), "strconv.") {
		return ""
	}
	return ": " + err.Error()
}

// listFix is the list of CPUs that was probably meant: without blanks and without
// what stands before or behind nothing.
func listFix(text string) string {
	var parts []string
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\t' || r == '\n' }) {
		if strings.HasPrefix(one, "-") || strings.HasSuffix(one, "-") {
			return "" // a range without its end can be any
		}
		parts = append(parts, one)
	}
	cpus, err := parseCPUs(strings.Join(parts, ","))
	if err != nil || cpus.IsEmpty() {
		return ""
	}
	return quoted(cpus)
}

// parseCPUs reads a list of CPUs as the kubelet does, except that it does not make
// room for CPUs that no machine has.
func parseCPUs(text string) (cpuset.CPUSet, error) {
	named := 0
	for one := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(one, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil {
			continue // Parse says what is wrong
		}
		if to >= cpuplan.MaxCPUs {
			return cpuset.CPUSet{}, fmt.Errorf("CPU %d is outside of the supported range 0-%d", to, cpuplan.MaxCPUs-1)
		}
		if named += max(0, to-from+1); named > 4*cpuplan.MaxCPUs {
			return cpuset.CPUSet{}, errors.New("the list has too many ranges that overlap")
		}
	}
	return cpuset.Parse(text)
}

// quoted is a set as it stands in a configuration.
func quoted(cpus cpuset.CPUSet) string { return strconv.Quote(cpus.String()) }
