// SPDX-License-Identifier: Apache-2.0

// Package run drives the resource managers of a Kubernetes release: it has them
// write state files, and has them start on files that were written before. What
// differs between releases is behind Kubelet. It is compiled into one program
// for each release.
package run

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Cases is what podslice's own test writes: a machine, the ways in which its
// kubelet is configured, and pods that are on it in one case after the other.
type Cases struct {
	// Machine is cAdvisor's MachineInfo, which is another Go package in each
	// release.
	Machine json.RawMessage
	// ReservedCPUs is a list such as "0,8"; ReservedMemory is on NUMA node 0.
	ReservedCPUs   string
	ReservedMemory string
	Settings       []Setting
	Cases          []Case
}

// Setting is a configuration.
type Setting struct {
	Name           string
	TopologyPolicy string
	Scope          string
	// Gate is PodLevelResourceManagers, which 1.35 has not.
	Gate bool
}

// Case is pods that are admitted one after the other. Of each pod, containers
// are started up to and without the one called Until; all, if that is empty.
type Case struct {
	Name  string
	Pods  []*v1.Pod
	Until string
}

// Kubelet is the managers of one start of a kubelet.
type Kubelet interface {
	// Admit returns the reason and the message of a refusal, or nothing.
	Admit(pod *v1.Pod) string
	StartContainer(pod *v1.Pod, c *v1.Container, id string)
	// Describe is where the container is: its CPUs and NUMA nodes.
	Describe(pod *v1.Pod, c *v1.Container) string
}

// StartFunc starts a kubelet with its state files in dir, on which the pods are
// active.
type StartFunc func(dir string, c *Cases, s Setting, pods []*v1.Pod) (Kubelet, error)

// Files is what a kubelet has written in one case.
type Files struct {
	// Pods tells where each container is, or why its pod was refused.
	Pods   []string `json:"pods"`
	CPU    string   `json:"cpu_manager_state"`
	Memory string   `json:"memory_manager_state"`
}

// Main is the program of a release. It reads cases.json in the folder that is
// its argument and writes RELEASE/SETTING.json there, the files that the release
// writes in each case, and RELEASE/check.txt, what it does with podslice's, which
// are in podslice/SETTING.json.
func Main(release string, hasGate bool, start StartFunc) {
	flag.Parse()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	if err := all(release, hasGate, flag.Arg(0), start); err != nil {
		fmt.Fprintln(os.Stderr, "statefiles:", release+":", err)
		os.Exit(1)
	}
}

func all(release string, hasGate bool, testdata string, start StartFunc) error {
	text, err := os.ReadFile(filepath.Join(testdata, "cases.json"))
	if err != nil {
		return err
	}
	var cases Cases
	if err := json.Unmarshal(text, &cases); err != nil {
		return err
	}
	out := filepath.Join(testdata, release)
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var verdicts strings.Builder
	for _, writer := range []string{"podslice", release} {
		for _, s := range cases.Settings {
			if writer == release {
				if s.Gate && !hasGate {
					continue
				}
				if err := write(&cases, s, start, filepath.Join(out, s.Name+".json")); err != nil {
					return err
				}
			}
			text, err := os.ReadFile(filepath.Join(testdata, writer, s.Name+".json"))
			if err != nil {
				return err
			}
			written := map[string]Files{}
			if err := json.Unmarshal(text, &written); err != nil {
				return err
			}
			for _, today := range cases.Settings {
				if today.Scope != s.Scope || today.Gate && !hasGate {
					continue
				}
				for _, c := range cases.Cases {
					verdict, err := check(&cases, today, c, written[c.Name], start)
					if err != nil {
						return err
					}
					fmt.Fprintf(&verdicts, "%s, written by %s with %s, read with %s: %s", c.Name, writer, s.Name, today.Name, verdict)
				}
			}
		}
	}
	return os.WriteFile(filepath.Join(out, "check.txt"), []byte(verdicts.String()), 0o666)
}

const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

// write has each case's pods admitted on a node of their own, and writes the
// files of that to one file.
func write(cases *Cases, s Setting, start StartFunc, to string) error {
	all := map[string]Files{}
	for _, c := range cases.Cases {
		dir, err := os.MkdirTemp("", "statefiles")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		kubelet, err := start(dir, cases, s, c.Pods)
		if err != nil {
			return err
		}
		var written Files
		for _, pod := range c.Pods {
			if refusal := kubelet.Admit(pod); refusal != "" {
				written.Pods = append(written.Pods, pod.Name+" refused: "+refusal)
				continue
			}
			begin(kubelet, pod, c.Until)
			written.Pods = append(written.Pods, describe(kubelet, pod)...)
		}
		for name, text := range map[string]*string{cpuFile: &written.CPU, memoryFile: &written.Memory} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			*text = string(content)
		}
		all[c.Name] = written
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o666)
}

// begin starts the pod's containers.
func begin(kubelet Kubelet, pod *v1.Pod, until string) {
	for _, c := range containers(pod) {
		if c.Name == until {
			return
		}
		kubelet.StartContainer(pod, c, string(pod.UID)+"-"+c.Name)
	}
}

func containers(pod *v1.Pod) (all []*v1.Container) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

func describe(kubelet Kubelet, pod *v1.Pod) (lines []string) {
	for _, c := range containers(pod) {
		lines = append(lines, fmt.Sprintf("%s/%s: %s", pod.Name, c.Name, kubelet.Describe(pod, c)))
	}
	return lines
}

// check starts the release on the files, has the pods admitted again, as
// a kubelet that starts does, and says what becomes of them.
func check(cases *Cases, s Setting, c Case, written Files, start StartFunc) (string, error) {
	dir, err := os.MkdirTemp("", "statefiles")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{cpuFile: written.CPU, memoryFile: written.Memory} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	kubelet, err := start(dir, cases, s, c.Pods)
	if err != nil {
		return fmt.Sprintf("does not start: %s\n", strings.ReplaceAll(err.Error(), dir, "DIR")), nil
	}
	var changes strings.Builder
	for _, pod := range c.Pods {
		if refusal := kubelet.Admit(pod); refusal != "" {
			fmt.Fprintf(&changes, "  kills %s: %s\n", pod.Name, refusal)
			continue
		}
		for _, line := range describe(kubelet, pod) {
			if !slices.Contains(written.Pods, line) {
				fmt.Fprintf(&changes, "  moves %s\n", line)
			}
		}
	}
	if changes.Len() == 0 {
		return "all stay\n", nil
	}
	return "\n" + changes.String(), nil
}
