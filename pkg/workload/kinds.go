// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/podslice/podslice/pkg/mistyped"
	"github.com/podslice/podslice/pkg/quantity"
)

// head is what every object has.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	} `json:"metadata"`
	// Items are those of a list, Spec is looked at for a pod template.
	Items []json.RawMessage `json:"items"`
	Spec  struct {
		Replicas *int32 `json:"replicas"`
		Template *struct {
			Spec *struct {
				Containers json.RawMessage `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// object reads one object.
func (r *reader) object(at Source, text []byte, depth int) error {
	var h head
	var objectMeta metav1.ObjectMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &h); err != nil {
		// Only of what is known here it is known what it should be.
		var loose struct {
			Kind string `json:"kind"`
		}
		if kjson.UnmarshalCaseSensitivePreserveInts(text, &loose) != nil || loose.Kind == "" {
			return fmt.Errorf("%s: it is no object of Kubernetes, which has an apiVersion, a kind and metadata", at)
		}
		h = head{Kind: loose.Kind}
	}
	if h.Kind == "" {
		return fmt.Errorf("%s: the field kind is missing", at)
	}
	at.Kind, at.Name = h.Kind, h.Metadata.Name
	if at.Name == "" && h.Metadata.GenerateName != "" {
		h.Metadata.Name = h.Metadata.GenerateName + "0"
		at.Name = h.Metadata.Name
	}
	objectMeta.Name, objectMeta.Namespace = h.Metadata.Name, h.Metadata.Namespace
	if objectMeta.Namespace == "" {
		objectMeta.Namespace = metav1.NamespaceDefault
	}
	if at.Name != "" {
		at.Name = objectMeta.Namespace + "/" + at.Name
	}
	if h.Items != nil && strings.HasSuffix(h.Kind, "List") {
		return r.list(at, h, depth)
	}
	o := object{reader: r, at: at, text: text, owner: objectMeta}
	switch h.Kind {
	case "Pod":
		return o.pod()
	case "PodTemplate":
		var v v1.PodTemplate
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) { return v.Template, 1, single })
	case "Deployment":
		var v appsv1.Deployment
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) { return v.Spec.Template, or(v.Spec.Replicas, 1), 0 })
	case "ReplicaSet":
		var v appsv1.ReplicaSet
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) { return v.Spec.Template, or(v.Spec.Replicas, 1), 0 })
	case "ReplicationController":
		var v v1.ReplicationController
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) {
			if v.Spec.Template == nil {
				return v1.PodTemplateSpec{}, 0, 0
			}
			return *v.Spec.Template, or(v.Spec.Replicas, 1), 0
		})
	case "StatefulSet":
		var v appsv1.StatefulSet
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) {
			var first int32
			if v.Spec.Ordinals != nil {
				first = v.Spec.Ordinals.Start
			}
			return v.Spec.Template, or(v.Spec.Replicas, 1), first
		})
	case "DaemonSet":
		var v appsv1.DaemonSet
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) { return v.Spec.Template, 1, single })
	case "Job":
		var v batchv1.Job
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) {
			o.sayIfSuspended(v.Spec.Suspend)
			return v.Spec.Template, parallel(v.Spec), 0
		})
	case "CronJob":
		var v batchv1.CronJob
		return o.workload(&v, func() (v1.PodTemplateSpec, int32, int32) {
			o.sayIfSuspended(v.Spec.Suspend)
			return v.Spec.JobTemplate.Spec.Template, parallel(v.Spec.JobTemplate.Spec), 0
		})
	}
	if kinds, ours := allKinds[h.APIVersion]; ours && !slices.Contains(kinds, h.Kind) {
		return fmt.Errorf("%s: %s has no kind %s: want one of %s", at, h.APIVersion, h.Kind, strings.Join(kinds, ", "))
	}
	if t := h.Spec.Template; t != nil && t.Spec != nil && t.Spec.Containers != nil {
		return o.unknownKind(or(h.Spec.Replicas, 1))
	}
	r.note(at, "it has no pods, and is left out")
	return nil
}

// allKinds are those of API groups that nobody else can add kinds to. What is none
// of them is a mistake, and its pods would be missing.
var allKinds = map[string][]string{
	"apps/v1":  {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"batch/v1": {"CronJob", "Job"},
}

func or(n *int32, otherwise int32) int32 {
	if n == nil {
		return otherwise
	}
	return *n
}

// parallel is how many pods of a job there are at the same time.
func parallel(spec batchv1.JobSpec) int32 {
	if spec.Completions != nil {
		return min(or(spec.Parallelism, 1), *spec.Completions)
	}
	return or(spec.Parallelism, 1)
}

func (r *reader) list(at Source, h head, depth int) error {
	if depth >= maxDepth {
		return fmt.Errorf("%s: it is a list in %d others, more than are read", at, depth)
	}
	of := strings.TrimSuffix(h.Kind, "List")
	for i, item := range h.Items {
		var kind struct {
			Kind string `json:"kind"`
		}
		if json.Unmarshal(item, &kind) == nil && kind.Kind == "" && of != "" {
			// The items of a list of one kind need not say it.
			var err error
			if item, err = withKind(item, of); err != nil {
				return fmt.Errorf("%s: items[%d]: %w", at, i, err)
			}
		}
		if err := r.object(at, item, depth+1); err != nil {
			return fmt.Errorf("items[%d] of a list: %w", i, err)
		}
	}
	return nil
}

func withKind(text json.RawMessage, kind string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	members["kind"] = json.RawMessage(fmt.Sprintf("%q", kind))
	return json.Marshal(members)
}

func (r *reader) note(at Source, format string, args ...any) {
	r.Notes = append(r.Notes, at.String()+": "+fmt.Sprintf(format, args...))
}

// object is one object that has pods.
type object struct {
	*reader
	at    Source
	text  []byte
	owner metav1.ObjectMeta
}

// single as the first ordinal is that of a pod that has none in its name.
const single = -1

// decode reads the object into a value of its kind.
func (o object) decode(into any) error {
	if err := quantity.Check(o.text); err != nil {
		return fmt.Errorf("%s: %w", o.at, err)
	}
	strict, err := kjson.UnmarshalStrict(o.text, into)
	if err != nil {
		return fmt.Errorf("%s: %w", o.at, mistyped.Explain(err, o.text, into))
	}
	if len(strict) > 0 && o.options.Strict {
		texts := make([]string, len(strict))
		for i, unknown := range strict {
			texts[i] = unknown.Error()
		}
		return fmt.Errorf("%s: %s", o.at, strings.Join(texts, "; "))
	}
	for _, unknown := range strict {
		o.note(o.at, "%v is not looked at", unknown)
	}
	return nil
}

// sayIfSuspended tells of pods that are planned for although they are not made now.
func (o object) sayIfSuspended(suspended *bool) {
	if suspended != nil && *suspended {
		o.note(o.at, "it is suspended and has no pods until it goes on; they are planned for")
	}
}

func (o object) pod() error {
	o.Objects++
	pod := &v1.Pod{}
	if err := o.decode(pod); err != nil {
		return err
	}
	return o.add(pod)
}

// workload adds the pods of an object that has a template, as many as there are
// replicas, named from the first ordinal on.
func (o object) workload(into any, read func() (template v1.PodTemplateSpec, replicas, first int32)) error {
	if err := o.decode(into); err != nil {
		return err
	}
	o.Objects++
	return o.replicas(read())
}

// unknownKind reads the template of an object of a kind that is not known.
func (o object) unknownKind(replicas int32) error {
	var members struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(o.text, &members); err != nil {
		return fmt.Errorf("%s: %w", o.at, err)
	}
	var template v1.PodTemplateSpec
	whole := o.text
	o.text = members.Spec.Template
	if err := o.decode(&template); err != nil {
		return err
	}
	o.text = whole
	o.Objects++
	o.note(o.at, "its kind is not known; it is taken for %d pods of its spec.template", replicas)
	return o.replicas(template, replicas, 0)
}

func (o object) replicas(template v1.PodTemplateSpec, replicas, first int32) error {
	switch {
	case o.owner.Name == "":
		return fmt.Errorf("%s: the field metadata.name is missing", o.at)
	case replicas < 0:
		return fmt.Errorf("%s: it has %d pods, which cannot be", o.at, replicas)
	case int(replicas) > maxPods-len(o.Pods):
		return fmt.Errorf("%s: its %d pods would be more than the %d that are planned for in all; there are %d already", o.at, replicas, maxPods, len(o.Pods))
	}
	for i := range replicas {
		pod := &v1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace, pod.UID = o.owner.Name, o.owner.Namespace, ""
		if first != single {
			pod.Name = fmt.Sprintf("%s-%d", o.owner.Name, int64(first)+int64(i))
		}
		if err := o.add(pod); err != nil {
			return err
		}
	}
	return nil
}

// add completes a pod and takes it up.
func (o object) add(pod *v1.Pod) error {
	if pod.Name == "" {
		pod.Name = o.owner.Name
	}
	if pod.Name == "" {
		return fmt.Errorf("%s: the field metadata.name is missing", o.at)
	}
	if pod.Namespace == "" {
		pod.Namespace = o.owner.Namespace
	}
	if len(o.Pods) >= maxPods {
		return fmt.Errorf("%s: there are more than the %d pods that are planned for", o.at, maxPods)
	}
	p := Pod{Pod: pod, From: o.at}
	// What a pod was before says nothing about what it will be.
	pod.Status = v1.PodStatus{}
	name := pod.Namespace + "/" + pod.Name
	if pod.UID == "" {
		p.MadeUID = true
		pod.UID = types.UID("pod " + name)
	}
	for _, key := range []string{"the name " + name, "the UID " + string(pod.UID)} {
		if other, ok := o.seen[key]; ok {
			return fmt.Errorf("%s: a pod has %s already: %s", o.at, key, other)
		}
		o.seen[key] = o.at
	}
	p.Defaulted = Default(pod)
	if err := Check(pod); err != nil {
		return fmt.Errorf("%s: the API server would refuse pod %s: %w", o.at, name, err)
	}
	o.Pods = append(o.Pods, p)
	return nil
}
