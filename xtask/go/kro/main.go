// Answers what kro makes of expressions, and of texts with expressions in them.
//
// It reads cases from stdin, one JSON object a line, and writes one answer a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	_ "unsafe" // For what kro does not export.

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	krocel "github.com/kubernetes-sigs/kro/pkg/cel"
	"github.com/kubernetes-sigs/kro/pkg/cel/library"
	"github.com/kubernetes-sigs/kro/pkg/cel/sentinels"
	_ "github.com/kubernetes-sigs/kro/pkg/graph"
	"github.com/kubernetes-sigs/kro/pkg/graph/parser"
)

type question struct {
	Expression string  `json:"expression"`
	Text       *string `json:"text"`
	Object     any     `json:"object"`
}

type answer struct {
	CompileError string   `json:"compileError,omitempty"`
	Failed       string   `json:"failed,omitempty"`
	Value        string   `json:"value,omitempty"`
	Expressions  []string `json:"expressions,omitempty"`
}

func main() {
	own = kroText
	env, err := environment()
	if err != nil {
		fail(err)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var asked question
		decoder := json.NewDecoder(strings.NewReader(in.Text()))
		decoder.UseNumber()
		if err := decoder.Decode(&asked); err != nil {
			fail(err)
		}
		given := evaluated
		if asked.Text != nil {
			given = extracted
		}
		if err := out.Encode(given(env, asked)); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// kroText writes conditions, and what stands for no value.
func kroText(value ref.Val) (string, bool) {
	if condition, ok := value.(*library.Condition); ok {
		text, err := json.Marshal(map[string]string{
			"type": condition.ConditionType, "status": condition.Status,
			"reason": condition.Reason, "message": condition.Message,
		})
		return string(text), err == nil
	}
	_, omitted := value.Value().(sentinels.Omit)
	return "omitted", omitted
}

func environment() (*cel.Env, error) {
	env, err := krocel.DefaultEnvironment(krocel.WithResourceIDs([]string{"x", "schema"}))
	if err != nil {
		return nil, err
	}
	return env.Extend(cel.CustomTypeProvider(library.ConditionTypeProvider(env.CELTypeProvider())))
}

func extracted(_ *cel.Env, asked question) answer {
	expressions, err := parser.ExtractExpressions(*asked.Text)
	if err != nil {
		return answer{CompileError: err.Error()}
	}
	return answer{Expressions: expressions}
}

// validateConditionExpressions is what kro's builder of graphs asks of expressions of conditions,
// the only ones that have a runtime.
//
//go:linkname validateConditionExpressions github.com/kubernetes-sigs/kro/pkg/graph.validateConditionExpressions
func validateConditionExpressions(env *cel.Env, expressions []string) error

func evaluated(env *cel.Env, asked question) answer {
	if err := validateConditionExpressions(env, []string{asked.Expression}); err != nil {
		return answer{CompileError: err.Error()}
	}
	compiled, issues := env.Compile(asked.Expression)
	if issues.Err() != nil {
		return answer{CompileError: issues.Err().Error()}
	}
	program, err := env.Program(compiled)
	if err != nil {
		return answer{CompileError: err.Error()}
	}
	value, _, err := program.Eval(map[string]any{
		"x":                    plain(asked.Object),
		"schema":               plain(asked.Object),
		library.RuntimeVarName: library.RuntimeSingleton,
	})
	if err != nil {
		return answer{Failed: err.Error()}
	}
	return answer{Value: show(value)}
}
