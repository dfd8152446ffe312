package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	extopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	kroresolver "github.com/kubernetes-sigs/kro/pkg/graph/schema/resolver"
)

// kinds knows schemas and scopes as a cluster would: those of Kubernetes from its documents, others
// from documents that are made of their definitions. Everything is read as kro reads it.
type kinds struct {
	meta.RESTMapper
	core      resolver.SchemaResolver
	documents openapi.Client
	resources map[schema.GroupVersion]map[string]served
	custom    map[string]custom
}

// served is how a kind is reached.
type served struct {
	plural     string
	namespaced bool
}

// custom is a kind that was defined, in all its versions.
type custom struct {
	definition *extv1.CustomResourceDefinition
	schemas    map[string]resolver.SchemaResolver
}

// given are kinds and those that one definition needs beside them.
type given struct {
	*kinds
	customs []custom
}

// discovered is the one thing that kro asks of discovery.
type discovered struct {
	discovery.DiscoveryInterface
	documents openapi.Client
}

func (d discovered) OpenAPIV3() openapi.Client { return d.documents }

func newKinds(dir string) *kinds {
	documents := openapitest.NewFileClient(dir)
	client := &resolver.ClientDiscoveryResolver{Discovery: discovered{documents: documents}}
	core := resolver.NewDefinitionsSchemaResolver(extopenapi.GetOpenAPIDefinitions, scheme.Scheme)
	return &kinds{
		core:      core.Combine(kroresolver.NewTTLCachedSchemaResolver(client, 500, time.Hour)),
		documents: documents,
		resources: map[schema.GroupVersion]map[string]served{},
		custom:    map[string]custom{},
	}
}

// with adds kinds by their definitions.
func (k *kinds) with(definitions []json.RawMessage) (*given, error) {
	known := &given{kinds: k}
	for _, text := range definitions {
		one, ok := k.custom[string(text)]
		if !ok {
			var err error
			if one, err = newCustom(text); err != nil {
				return nil, err
			}
			k.custom[string(text)] = one
		}
		known.customs = append(known.customs, one)
	}
	return known, nil
}

func newCustom(text []byte) (custom, error) {
	definition := &extv1.CustomResourceDefinition{}
	if err := json.Unmarshal(text, definition); err != nil {
		return custom{}, err
	}
	made := custom{definition: definition, schemas: map[string]resolver.SchemaResolver{}}
	for _, version := range definition.Spec.Versions {
		document, err := builder.BuildOpenAPIV3(definition, version.Name, builder.Options{})
		if err != nil {
			return custom{}, err
		}
		text, err := json.Marshal(document)
		if err != nil {
			return custom{}, err
		}
		client := &resolver.ClientDiscoveryResolver{Discovery: discovered{
			documents: single{path: "apis/" + definition.Spec.Group + "/" + version.Name, text: text},
		}}
		made.schemas[version.Name] = kroresolver.NewTTLCachedSchemaResolver(client, 4, time.Hour)
	}
	return made, nil
}

// single is one document.
type single struct {
	path string
	text []byte
}

func (s single) Paths() (map[string]openapi.GroupVersion, error) {
	return map[string]openapi.GroupVersion{s.path: s}, nil
}

func (s single) Schema(string) ([]byte, error) { return s.text, nil }

func (s single) ServerRelativeURL() string { return s.path }

func (g *given) find(kind schema.GroupKind, version string) (custom, bool) {
	for _, one := range g.customs {
		if one.definition.Spec.Group == kind.Group && one.definition.Spec.Names.Kind == kind.Kind && one.schemas[version] != nil {
			return one, true
		}
	}
	return custom{}, false
}

// ResolveSchema is what kro asks for a kind's schema.
func (g *given) ResolveSchema(gvk schema.GroupVersionKind) (*spec.Schema, error) {
	if one, ok := g.find(gvk.GroupKind(), gvk.Version); ok {
		return one.schemas[gvk.Version].ResolveSchema(gvk)
	}
	return g.core.ResolveSchema(gvk)
}

// RESTMapping is what kro asks for a kind's scope.
func (g *given) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	gvk := kind.WithVersion(versions[0])
	if one, ok := g.find(kind, gvk.Version); ok {
		return mapped(gvk, served{
			plural:     one.definition.Spec.Names.Plural,
			namespaced: one.definition.Spec.Scope == extv1.NamespaceScoped,
		}), nil
	}
	resources, err := g.served(gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	one, ok := resources[gvk.Kind]
	if !ok {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return mapped(gvk, one), nil
}

func mapped(gvk schema.GroupVersionKind, one served) *meta.RESTMapping {
	scope := meta.RESTScopeRoot
	if one.namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{
		Resource:         gvk.GroupVersion().WithResource(one.plural),
		GroupVersionKind: gvk,
		Scope:            scope,
	}
}

// document is what is read of an OpenAPI document here.
type document struct {
	Paths map[string]struct {
		Get struct {
			Action string                  `json:"x-kubernetes-action"`
			Kind   schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		} `json:"get"`
	} `json:"paths"`
}

// served reads how the kinds of a version are reached: by the addresses of single objects.
func (k *kinds) served(version schema.GroupVersion) (map[string]served, error) {
	if known, ok := k.resources[version]; ok {
		return known, nil
	}
	paths, err := k.documents.Paths()
	if err != nil {
		return nil, err
	}
	root := "apis/" + version.String()
	if version.Group == "" {
		root = "api/" + version.Version
	}
	file, ok := paths[root]
	if !ok {
		return nil, fmt.Errorf("there is no version %s", version)
	}
	text, err := file.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var read document
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	found := map[string]served{}
	for path, one := range read.Paths {
		rest := strings.TrimPrefix(path, "/"+root+"/")
		below, namespaced := strings.CutPrefix(rest, "namespaces/{namespace}/")
		plural, single := strings.CutSuffix(below, "/{name}")
		if single && one.Get.Action == "get" && !strings.Contains(plural, "/") {
			found[one.Get.Kind.Kind] = served{plural: plural, namespaced: namespaced}
		}
	}
	k.resources[version] = found
	return found, nil
}
