// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/test/differential/scenario"
)

// optionSets are the sets of options that may be on.
var optionSets = [][]string{
	nil, nil, nil,
	{scenario.FullPCPUs}, {scenario.FullPCPUs}, {scenario.Strict}, {scenario.Strict, scenario.FullPCPUs},
	{scenario.AcrossCores}, {scenario.AcrossCores, scenario.Strict},
	{scenario.BySocket}, {scenario.BySocket, scenario.FullPCPUs}, {scenario.BySocket, scenario.AcrossCores},
	{scenario.Uncore}, {scenario.Uncore, scenario.FullPCPUs}, {scenario.Uncore, scenario.BySocket},
}

func TestSurvey(t *testing.T) {
	dir := scratch()
	defer os.RemoveAll(dir)
	_ = os.Mkdir(dir+"/ours", 0o755)
	_ = os.Mkdir(dir+"/up", 0o755)
	c := newChild(dir + "/up")
	defer c.stop()
	limits := scenario.Limits{Nodes: 4, Options: optionSets}
	counts := map[string]int{}
	var oursTime time.Duration
	start := time.Now()
	calls := 0
	for seed := range uint64(count("PODSLICE_SURVEY", 1000)) {
		if only := count("PODSLICE_SEED", -1); only >= 0 {
			seed = uint64(only)
		}
		s := scenario.Generate(seed, limits)
		setGates(s.Settings.PodLevel)
		t0 := time.Now()
		tr := playOurs(s, dir+"/ours", false)
		oursTime += time.Since(t0)
		calls += len(tr.calls)
		got, err := compare(tr, c)
		require.NoError(t, err)
		for _, d := range got.disagreements {
			k := ""
			f, err := explain(d)
			if err == nil {
				k = f.String()
			} else {
				k = fmt.Sprintf("UNEXPLAINED %s again=%t regular=%t opts=%v ours=%s theirs=%s", d.call.Op, d.call.Again, s.Machine.Regular(), s.Settings.Options, refusalKind(d.ours.Err), refusalKind(d.theirs.Err))
			}
			counts[k]++
			if counts[k] <= 2 && err != nil {
				t.Logf("%s\n%s%v", k, d, err)
			}
		}
	}
	t.Logf("%v in all, ours %v, %d calls", time.Since(start), oursTime, calls)
	for _, k := range sortedKeys(counts) {
		t.Log(counts[k], k)
	}
}

func count(name string, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return fallback
}
