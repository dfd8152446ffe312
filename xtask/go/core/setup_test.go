// Records what kro's integration tests create, in place of their own set-up: there is no cluster, and
// each spec ends where it would first have to wait for one.
package core_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/test/integration/environment"
)

var env *environment.Environment

func TestCore(t *testing.T) {
	RegisterFailHandler(Fail)
	file, err := os.Create(os.Getenv("KRO_RECORD"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	kept := &recorder{out: json.NewEncoder(file), graphs: map[string][]byte{}, asked: map[string]int{}}
	env = &environment.Environment{Client: kept}
	RunSpecs(t, "recording")
}

func toRawExtension(value any) runtime.RawExtension {
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return runtime.RawExtension{Raw: text}
}

// recorder takes everything and knows nothing but the definitions that it was given.
type recorder struct {
	client.Client
	out    *json.Encoder
	graphs map[string][]byte
	asked  map[string]int
}

// mostAsked is how often a definition can be looked at in a spec; by then a test is waiting.
const mostAsked = 3

type line struct {
	File   string         `json:"file"`
	Spec   string         `json:"spec"`
	Object map[string]any `json:"object"`
}

func (r *recorder) record(object client.Object) {
	text, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	var plain map[string]any
	Expect(json.Unmarshal(text, &plain)).To(Succeed())
	switch object := object.(type) {
	case *v1alpha1.ResourceGraphDefinition:
		r.graphs[object.Name] = text
		plain["apiVersion"], plain["kind"] = "kro.run/v1alpha1", "ResourceGraphDefinition"
	case *extv1.CustomResourceDefinition:
		plain["apiVersion"], plain["kind"] = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	}
	switch plain["kind"] {
	case "ResourceGraphDefinition", "CustomResourceDefinition":
		delete(plain, "status")
		spec := CurrentSpecReport()
		Expect(r.out.Encode(line{File: filepath.Base(spec.FileName()), Spec: spec.FullText(), Object: plain})).To(Succeed())
	}
}

func (r *recorder) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	r.record(object)
	return nil
}

func (r *recorder) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	r.record(object)
	return nil
}

func (r *recorder) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	into, ok := object.(*v1alpha1.ResourceGraphDefinition)
	asked := CurrentSpecReport().FullText() + "/" + key.Name
	r.asked[asked]++
	if !ok || r.graphs[key.Name] == nil || r.asked[asked] > mostAsked {
		Skip("there is no cluster")
	}
	if err := json.Unmarshal(r.graphs[key.Name], into); err != nil {
		return err
	}
	into.Status.State = v1alpha1.ResourceGraphDefinitionStateActive
	for _, resource := range into.Spec.Resources {
		into.Status.TopologicalOrder = append(into.Status.TopologicalOrder, resource.ID)
	}
	return nil
}

func (r *recorder) List(context.Context, client.ObjectList, ...client.ListOption) error {
	Skip("there is no cluster")
	return nil
}

func (r *recorder) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

func (r *recorder) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}
