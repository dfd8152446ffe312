// Command typepack prints, as JSON, what Kubernetes' Go types say about their two encodings:
// protobuf field numbers and kinds, and JSON names with Go's omission rules. The published .proto
// files know the numbers but not the JSON side, so both come from the struct tags here, and the
// caller compares the numbers with the .proto files.
//
// It refuses what it does not understand: a type with a JSON codec of its own that is not named in
// `special`, an untagged field, a map whose keys are not strings.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// special names the types whose encodings are not those of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():      "time",
	reflect.TypeFor[metav1.MicroTime](): "microtime",
	reflect.TypeFor[metav1.FieldsV1]():  "fields",

	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "int-or-string",
	reflect.TypeFor[runtime.RawExtension](): "raw",

	reflect.TypeFor[apiextensions.JSON]():                         "json",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-array",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-strings",
}

// field is one protobuf field of a message. Type is a scalar ("string"), a special type ("time"),
// or a message ("@k8s.io.api.core.v1.Pod"), with "[]" or "map:" before it where it repeats.
type field struct {
	Number    int    `json:"number"`
	Name      string `json:"name"` // in the .proto file
	JSON      string `json:"json"` // empty when inlined
	Type      string `json:"type"`
	Pointer   bool   `json:"pointer"`
	OmitEmpty bool   `json:"omitEmpty"`
	OmitZero  bool   `json:"omitZero"`
}

// unmarshaler is what generated protobuf code gives a type.
type unmarshaler interface{ Unmarshal([]byte) error }

type output struct {
	// Kinds maps "group/version/Kind" to a message; metav1's own kinds have the group "meta.k8s.io".
	Kinds    map[string]string  `json:"kinds"`
	Messages map[string][]field `json:"messages"`
}

type walker struct {
	output
}

func main() {
	log.SetFlags(0)
	w := &walker{output{Kinds: map[string]string{}, Messages: map[string][]field{}}}
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	served := map[string]bool{}
	for _, arg := range os.Args[1:] {
		served[arg] = true
	}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || !served[gvk.GroupVersion().String()] {
			continue
		}
		w.kind(gvk, t)
	}
	for _, object := range []any{
		metav1.Status{}, metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{},
		metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIResourceList{}, metav1.APIVersions{},
	} {
		t := reflect.TypeOf(object)
		w.kind(metav1.SchemeGroupVersion.WithKind(t.Name()), t)
	}
	encoder := json.NewEncoder(os.Stdout)
	if err := encoder.Encode(w.output); err != nil {
		log.Fatal(err)
	}
}

func (w *walker) kind(gvk schema.GroupVersionKind, t reflect.Type) {
	if t.PkgPath() == reflect.TypeFor[metav1.Status]().PkgPath() {
		gvk.Group, gvk.Version = metav1.GroupName, "v1"
	}
	w.Kinds[gvk.Group+"/"+gvk.Version+"/"+gvk.Kind] = w.message(t)
}

// message records a struct type and gives its name.
func (w *walker) message(t reflect.Type) string {
	name := strings.NewReplacer("/", ".", "-", "_").Replace(t.PkgPath()) + "." + t.Name()
	if _, known := w.Messages[name]; known {
		return name
	}
	if t.Kind() != reflect.Struct {
		log.Fatalf("%s: expected a struct", t)
	}
	w.Messages[name] = []field{}
	fields := []field{}
	for i := range t.NumField() {
		if f, ok := w.field(t, t.Field(i)); ok {
			fields = append(fields, f)
		}
	}
	w.Messages[name] = fields
	return name
}

func (w *walker) field(owner reflect.Type, f reflect.StructField) (field, bool) {
	at := owner.String() + "." + f.Name
	tag, ok := f.Tag.Lookup("protobuf")
	if f.Type == reflect.TypeFor[metav1.TypeMeta]() || tag == "-" {
		return field{}, false
	}
	if !ok {
		log.Fatalf("%s has no protobuf tag", at)
	}
	result := field{}
	for i, part := range strings.Split(tag, ",") {
		switch {
		case i == 1:
			number, err := strconv.Atoi(part)
			if err != nil {
				log.Fatalf("%s: %v", at, err)
			}
			result.Number = number
		case strings.HasPrefix(part, "name="):
			result.Name = strings.TrimPrefix(part, "name=")
		}
	}
	options := strings.Split(f.Tag.Get("json"), ",")
	result.JSON = options[0]
	for _, option := range options[1:] {
		switch option {
		case "omitempty":
			result.OmitEmpty = true
		case "omitzero":
			result.OmitZero = true
		case "inline", "":
		default:
			log.Fatalf("%s: unknown JSON option %q", at, option)
		}
	}
	if result.JSON == "-" || (result.JSON == "" && !f.Anonymous) {
		log.Fatalf("%s: JSON name %q, embedded: %v", at, result.JSON, f.Anonymous)
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		result.Pointer = true
		t = t.Elem()
	}
	result.Type = w.typeOf(at, t, true)
	return result, true
}

func (w *walker) typeOf(at string, t reflect.Type, repeats bool) string {
	if name, ok := special[t]; ok {
		if strings.HasPrefix(name, "schema-") {
			w.message(reflect.TypeFor[apiextensions.JSONSchemaProps]())
		}
		return name
	}
	refuseCodecs(at, t)
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64, reflect.Int:
		return "int64"
	case reflect.Float64:
		return "double"
	case reflect.Struct:
		return "@" + w.message(t)
	case reflect.Pointer:
		return w.typeOf(at, t.Elem(), repeats)
	case reflect.Slice:
		return w.slice(at, t, repeats)
	case reflect.Map:
		if t.Key().Kind() != reflect.String || !repeats {
			log.Fatalf("%s: unexpected map %s", at, t)
		}
		return "map:" + w.typeOf(at, t.Elem(), false)
	}
	log.Fatalf("%s: unexpected type %s", at, t)
	return ""
}

func (w *walker) slice(at string, t reflect.Type, repeats bool) string {
	if t.Elem().Kind() == reflect.Uint8 {
		return "bytes"
	}
	// A named slice with a codec of its own is a message that wraps the list.
	if _, wraps := reflect.New(t).Interface().(unmarshaler); wraps {
		if t.Elem().Kind() != reflect.String {
			log.Fatalf("%s: unexpected wrapper %s", at, t)
		}
		return "strings"
	}
	if !repeats {
		log.Fatalf("%s: unexpected list %s", at, t)
	}
	return "[]" + w.typeOf(at, t.Elem(), false)
}

// refuseCodecs stops at types that encode themselves in a way the tables cannot say.
func refuseCodecs(at string, t reflect.Type) {
	pointer := reflect.New(t).Interface()
	_, marshals := pointer.(json.Marshaler)
	_, unmarshals := pointer.(json.Unmarshaler)
	if marshals || unmarshals {
		log.Fatalf("%s: %s has a JSON codec of its own", at, fmt.Sprint(t))
	}
}
