package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// strategic merges a strategic merge patch.
func strategic(question testCase) (any, error) {
	types := map[string]any{"Deployment": &appsv1.Deployment{}, "Pod": &corev1.Pod{}, "Service": &corev1.Service{}}
	shape, ok := types[question.Type]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", question.Type)
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(question.Object), question.Patch, shape)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"merged": merged}, nil
}
