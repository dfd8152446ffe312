package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// operation is one request.
type operation struct {
	Apply       bool           `json:"apply"`
	Force       bool           `json:"force"`
	Manager     string         `json:"manager"`
	Subresource string         `json:"subresource"`
	Object      map[string]any `json:"object"`
	// KeepsFields: an update sends the managed fields that it has read.
	KeepsFields bool `json:"keepsFields"`
	// Exclude: paths that the request does not own.
	Exclude [][]string `json:"exclude"`
}

// plain does not convert, default or know any type.
type plain struct{}

func (plain) Convert(in, out, context any) error { return nil }
func (plain) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (plain) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (plain) Default(runtime.Object) {}
func (plain) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// managed runs requests one after the other and tells what is stored after each.
func managed(question testCase) (any, error) {
	var definitions map[string]*spec.Schema
	if err := json.Unmarshal(question.Schema, &definitions); err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "X"}
	steps := []any{}
	var live *unstructured.Unstructured
	for _, op := range question.Ops {
		stored, err := request(converter, kind, live, op)
		if err != nil {
			steps = append(steps, map[string]any{"error": err.Error()})
			continue
		}
		live = stored
		steps = append(steps, map[string]any{"object": runtime.DeepCopyJSON(live.Object)})
	}
	return map[string]any{"steps": steps}, nil
}

func request(converter managedfields.TypeConverter, kind schema.GroupVersionKind, live *unstructured.Unstructured, op operation) (*unstructured.Unstructured, error) {
	excluded := fieldpath.NewSet()
	for _, path := range op.Exclude {
		parts := []any{}
		for _, part := range path {
			parts = append(parts, part)
		}
		excluded.Insert(fieldpath.MakePathOrDie(parts...))
	}
	reset := map[fieldpath.APIVersion]fieldpath.Filter{"x.io/v1": fieldpath.NewExcludeSetFilter(excluded)}
	manager, err := managedfields.NewDefaultCRDFieldManager(converter, plain{}, plain{}, plain{}, kind, kind.GroupVersion(), op.Subresource, reset)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(op.Object)}
	before := live
	if before == nil {
		empty, _ := plain{}.New(kind)
		before = empty.(*unstructured.Unstructured)
	}
	var out runtime.Object
	if op.Apply {
		out, err = manager.Apply(before.DeepCopy(), object, op.Manager, op.Force)
		if err != nil {
			return nil, err
		}
	} else {
		if op.KeepsFields {
			object.SetManagedFields(before.GetManagedFields())
		}
		out = manager.UpdateNoErrors(before.DeepCopy(), object, op.Manager)
	}
	return out.(*unstructured.Unstructured), nil
}
