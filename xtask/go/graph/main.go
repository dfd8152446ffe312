// Answers what kro makes of a ResourceGraphDefinition: whether it is taken, by the API first and by
// kro then, and what becomes of it.
//
// Its arguments are the directory of Kubernetes' OpenAPI documents and the file that defines kro's
// kind. It reads questions from stdin, one JSON object a line, and writes one answer a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/pkg/features"
	"github.com/kubernetes-sigs/kro/pkg/graph"
	"github.com/kubernetes-sigs/kro/pkg/graph/hash"
)

type question struct {
	// Object is a whole definition.
	Object map[string]any `json:"object"`
	// Definitions are the kinds that it needs beside those of Kubernetes.
	Definitions []json.RawMessage `json:"definitions"`
}

type answer struct {
	// Refused says why, if it is.
	Refused string `json:"refused,omitempty"`
	// Unserved says why the API does not take the kind that was made, if it does not.
	Unserved string `json:"unserved,omitempty"`

	Definition json.RawMessage     `json:"definition,omitempty"`
	Hash       string              `json:"hash,omitempty"`
	Order      []string            `json:"order,omitempty"`
	Waves      map[string]int      `json:"waves,omitempty"`
	DependsOn  map[string][]string `json:"dependsOn,omitempty"`
}

// kro's own limits.
var limits = graph.Config{MaxCollectionSize: 1000, MaxCollectionDimensionSize: 10}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: %s <openapi directory> <definition of kro's kind>", os.Args[0]))
	}
	// omit() is part of what is compared.
	if err := features.FeatureGate.Set("CELOmitFunction=true"); err != nil {
		fail(err)
	}
	builtin := newKinds(os.Args[1])
	api, err := newAdmission(os.Args[2])
	if err != nil {
		fail(err)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<28)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var asked question
		if err := utiljson.Unmarshal(in.Bytes(), &asked); err != nil {
			fail(err)
		}
		if err := out.Encode(answered(asked, builtin, api)); err != nil {
			fail(err)
		}
	}
	if err := in.Err(); err != nil {
		fail(err)
	}
}

func answered(asked question, builtin *kinds, api *admission) (given answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Refused: fmt.Sprint("panic: ", panicked)}
		}
	}()
	if refused := api.admit(asked.Object); refused != "" {
		return answer{Refused: "API: " + refused}
	}
	definition, err := typed(asked.Object)
	if err != nil {
		return answer{Refused: "API: " + err.Error()}
	}
	known, err := builtin.with(asked.Definitions)
	if err != nil {
		fail(err)
	}
	builder, err := graph.NewBuilder(nil, nil, graph.WithSchemaResolver(known), graph.WithRESTMapper(known))
	if err != nil {
		fail(err)
	}
	made, err := builder.NewResourceGraphDefinition(definition, limits)
	if err != nil {
		return answer{Refused: err.Error()}
	}
	return described(definition, made)
}

func typed(object map[string]any) (*v1alpha1.ResourceGraphDefinition, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	definition := &v1alpha1.ResourceGraphDefinition{}
	return definition, json.Unmarshal(text, definition)
}

func described(definition *v1alpha1.ResourceGraphDefinition, made *graph.Graph) answer {
	hashed, err := hash.Spec(definition.Spec)
	if err != nil {
		return answer{Refused: err.Error()}
	}
	// As the API would write it.
	made.CRD.SetGroupVersionKind(extv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	text, err := json.Marshal(made.CRD)
	if err != nil {
		// What cannot be written is never served.
		return answer{Unserved: err.Error(), Hash: hashed}
	}
	dependsOn := map[string][]string{}
	for id, node := range made.Nodes {
		dependsOn[id] = node.Meta.Dependencies
	}
	return answer{
		Unserved:   unserved(text),
		Definition: text,
		Hash:       hashed,
		Order:      made.TopologicalOrder,
		Waves:      made.ApplyOrders,
		DependsOn:  dependsOn,
	}
}

// unserved says what the API has against a definition.
func unserved(text []byte) string {
	definition := &extv1.CustomResourceDefinition{}
	if err := json.Unmarshal(text, definition); err != nil {
		return err.Error()
	}
	return refusedDefinition(definition)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
