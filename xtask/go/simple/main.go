// Answers what kro makes of SimpleSchema, of kinds, and of two schemas.
//
// It reads questions from stdin, one JSON object a line, and writes one answer a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/gobuffalo/flect"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kubernetes-sigs/kro/pkg/graph/crd/compat"
	"github.com/kubernetes-sigs/kro/pkg/simpleschema"
)

type question struct {
	Spec  map[string]any `json:"spec"`
	Types map[string]any `json:"types"`

	Kind string `json:"kind"`

	Old *extv1.JSONSchemaProps `json:"old"`
	New *extv1.JSONSchemaProps `json:"new"`
}

type answer struct {
	Failed string          `json:"failed,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`

	Plural string `json:"plural,omitempty"`

	Breaking []string `json:"breaking,omitempty"`
	Changes  int      `json:"changes,omitempty"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var asked question
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			fail(err)
		}
		if err := out.Encode(answered(asked)); err != nil {
			fail(err)
		}
	}
}

func answered(asked question) answer {
	switch {
	case asked.Kind != "":
		return answer{Plural: flect.Pluralize(strings.ToLower(asked.Kind))}
	case asked.Old != nil:
		return compared(asked)
	default:
		return compiled(asked)
	}
}

// compiled answers with the schema as the definition would hold it. A schema that cannot be
// written is none.
func compiled(asked question) (given answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Failed: fmt.Sprint("panic: ", panicked)}
		}
	}()
	schema, err := simpleschema.ToOpenAPISpec(asked.Spec, asked.Types)
	if err != nil {
		return answer{Failed: err.Error()}
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return answer{Failed: err.Error()}
	}
	return answer{Schema: text}
}

func compared(asked question) answer {
	report := compat.Compare(asked.Old, asked.New)
	given := answer{Changes: len(report.BreakingChanges) + len(report.NonBreakingChanges)}
	for _, change := range report.BreakingChanges {
		given.Breaking = append(given.Breaking, fmt.Sprintf("%s at %s", change.ChangeType, change.Path))
	}
	return given
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
