// SPDX-License-Identifier: Apache-2.0

package semantics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/test/simnode"
)

var rewrite = flag.Bool("rewrite", false, "write what is the case into the document's tables")

// The heads of the tables. A table with another one is nothing that is tested,
// and the test fails for it.
var (
	machineHead = []string{"NUMA nodes", "cores of each", "threads of each", "memory of each", "pages of 2Mi of each", "pages of 1Gi of each", "reserved CPUs", "reserved memory"}
	givenHead   = []string{"pod", "allocated", "CPUs", "memory"}
	givenOnHead = []string{"pod", "allocated", "node", "CPUs", "memory"}
	refusedHead = []string{"pod", "allocated", "node", "refused with"}
)

// TestDocument holds every row of every table of the document: the pod is
// admitted on the machine of the document under each setting that the row is
// for, and is given, or refused with, what the row says.
func TestDocument(t *testing.T) {
	tables := readDocument(t)
	machines := find(tables, machineHead...)
	require.Len(t, machines, 1)
	require.Len(t, machines[0].rows, 1)
	info := readMachine(t, machines[0].rows[0])
	is := map[int]map[string]string{}
	rows := 0
	for _, head := range [][]string{givenHead, givenOnHead, refusedHead} {
		for _, table := range find(tables, head...) {
			require.NotEmptyf(t, table.rows, "line %d", table.line)
			for _, r := range table.rows {
				t.Run(fmt.Sprintf("line %d", r.line), func(t *testing.T) { is[r.line] = r.hold(t, info) })
				rows++
			}
		}
	}
	for _, table := range tables {
		require.Truef(t, table.parsed, "line %d: a table that nothing tests: %q", table.line, table.head)
	}
	require.Equal(t, countRows(t), rows+1, "rows that were held, and the machine's")
	if *rewrite {
		rewriteDocument(t, tables, is)
	}
}

// countRows counts the rows of tables by themselves: lines that begin like one,
// without a head and the line after it for each.
func countRows(t *testing.T) int {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	text := string(data)
	return len(regexp.MustCompile(`(?m)^\s*\|`).FindAllString(text, -1)) - 2*len(regexp.MustCompile(`(?m)^\s*\|[ |:-]+\|$`).FindAllString(text, -1))
}

func readMachine(t *testing.T, r row) *simnode.Node {
	number := func(column string) int {
		value, err := strconv.Atoi(r.one(t, column))
		require.NoError(t, err)
		return value
	}
	n := simnode.New(t)
	n.Info = simnode.Shape{
		Nodes: number("NUMA nodes"), Cores: number("cores of each"), Threads: number("threads of each"),
		Memory:       resource.MustParse(r.one(t, "memory of each")),
		Hugepages2Mi: number("pages of 2Mi of each"), Hugepages1Gi: number("pages of 1Gi of each"),
	}.MachineInfo()
	reserved, err := cpuset.Parse(r.one(t, "reserved CPUs"))
	require.NoError(t, err)
	n.ReservedCPUs = reserved
	require.Equal(t, "1Gi on node 0", r.one(t, "reserved memory"), "that is what a simulated node has")
	return n
}

// hold admits the row's pod under every setting of the row and returns what its
// cells should be.
func (r row) hold(t *testing.T, machine *simnode.Node) (cells map[string]string) {
	settings, err := parseSettings(r.one(t, "allocated"))
	require.NoError(t, err)
	pod, err := parsePod("pod", r.cell("pod"))
	require.NoError(t, err)
	for i, s := range settings {
		n := newNode(t)
		n.Info, n.ReservedCPUs = machine.Info, machine.ReservedCPUs
		n.Scope, n.TopologyPolicy = s.scope, s.policy
		before := r.prepare(t, n)
		what := fmt.Sprintf("line %d, scope %s, policy %s", r.line, s.scope, s.policy)
		got := admit(t, n, pod, i == 0, what)
		want := map[string]string{}
		for column := range got {
			want[column] = strings.Join(r.cell(column), "\n")
			if column == "refused with" && strings.HasPrefix(got[column], want[column]) && endsSentence(got[column][len(want[column]):]) {
				got[column] = want[column]
			}
		}
		for _, column := range []string{"CPUs", "memory", "refused with"} {
			require.Equalf(t, slices.Contains(r.in.head, column), got[column] != "", "%s: %v", what, got)
		}
		if cells != nil && got["refused with"] == "" {
			require.Equalf(t, cells, got, "%s: other than under the settings before", what)
		}
		cells = got
		if !*rewrite {
			require.Equal(t, want, got, what)
		}
		for _, b := range before {
			after, err := outcomeOf(n, b.pod)
			require.NoError(t, err, what)
			require.Equal(t, b.outcome, after, "%s: the pod that ran before", what)
		}
	}
	return cells
}

// endsSentence reports whether what follows a sentence is facts.
func endsSentence(rest string) bool {
	return rest == "" || strings.HasPrefix(rest, ": ") || strings.HasPrefix(rest, " (") || strings.HasPrefix(rest, ", which is unexpected")
}

// running is a pod that runs when the row's pod comes.
type running struct {
	pod     *v1.Pod
	outcome outcome
}

// prepare starts the kubelet as the column "node" says, and its pods.
func (r row) prepare(t *testing.T, n *simnode.Node) (before []running) {
	lines := r.cell("node")
	n.CPUOptions = map[string]string{}
	var pods []string
	for _, line := range lines {
		pod, runs := strings.CutPrefix(line, "runs ")
		switch {
		case runs:
			pods = append(pods, pod)
		case line == "idle" && len(lines) == 1:
		case line == "gate off":
			n.Gate = false
		case line == "CPU policy none":
			n.CPUPolicy = "none"
		case line == "memory policy None":
			n.MemoryPolicy = "None"
		case line == cpumanager.StrictCPUReservationOption, line == cpumanager.FullPCPUsOnlyOption:
			n.CPUOptions[line] = "true"
		default:
			t.Fatalf("line %d: not known of a node: %q", r.line, line)
		}
	}
	require.NoError(t, n.Start())
	for i, text := range pods {
		pod, err := parsePod(fmt.Sprintf("before%d", i), strings.Split(text, ";"))
		require.NoError(t, err)
		n.Add(pod)
		result := n.Admit(pod)
		require.Truef(t, result.Admit, "line %d: the pod before: %s", r.line, result.Message)
		require.NoError(t, n.StartContainers(pod))
		is, err := outcomeOf(n, pod)
		require.NoError(t, err)
		before = append(before, running{pod, is})
	}
	return before
}

// parsePod reads a pod as the document writes it: its budget, or "no budget",
// and its containers in the order of the spec.
func parsePod(name string, lines []string) (*v1.Pod, error) {
	head := name
	if lines[0] != "no budget" {
		head += " " + lines[0]
	}
	pod, err := simnode.ParsePod(strings.Join(append([]string{head}, lines[1:]...), "\n"))
	if err != nil {
		return nil, err
	}
	i := 1
	for c := range all(pod) {
		if f := strings.Fields(lines[i]); f[1] != c.Name {
			return nil, fmt.Errorf("%q stands where the spec has container %q", lines[i], c.Name)
		}
		i++
	}
	return pod, nil
}

// rewriteDocument puts what is the case into the cells of decisions.
func rewriteDocument(t *testing.T, tables []*table, is map[int]map[string]string) {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	for _, table := range tables {
		for _, r := range table.rows {
			cells := strings.Split(strings.Trim(lines[r.line-1], "|"), "|")
			for column, text := range is[r.line] {
				cells[slices.Index(table.head, column)] = " " + strings.ReplaceAll(text, "\n", "<br>") + " "
			}
			lines[r.line-1] = "|" + strings.Join(cells, "|") + "|"
		}
	}
	require.NoError(t, os.WriteFile(document, []byte(strings.Join(lines, "\n")), 0o644))
}
