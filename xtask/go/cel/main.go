// Answers what Kubernetes' own CEL environment makes of expressions.
//
// With an argument it lists the expressions in the tests of a directory; without, it reads cases
// from stdin, one JSON object a line, and writes one answer a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	k8scel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type question struct {
	Expression string          `json:"expression"`
	Schema     json.RawMessage `json:"schema,omitempty"`
	Object     any             `json:"object,omitempty"`
}

type answer struct {
	CompileError string `json:"compileError,omitempty"`
	Type         string `json:"type,omitempty"`
	Min          uint64 `json:"min"`
	Max          uint64 `json:"max"`
	Failed       string `json:"failed,omitempty"`
	Value        string `json:"value,omitempty"`
	Cost         uint64 `json:"cost"`
}

func main() {
	if len(os.Args) > 1 {
		for _, dir := range os.Args[1:] {
			list(dir)
		}
		return
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<24)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var asked question
		decoder := json.NewDecoder(strings.NewReader(in.Text()))
		decoder.UseNumber()
		if err := decoder.Decode(&asked); err != nil {
			fail(err)
		}
		if err := out.Encode(reply(base, asked)); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// list prints every string literal that a test gives as an expression.
func list(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	out := json.NewEncoder(os.Stdout)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			fail(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			pair, ok := node.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := pair.Key.(*ast.Ident)
			if !ok || (key.Name != "expr" && key.Name != "expression") {
				return true
			}
			if literal, ok := pair.Value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					_ = out.Encode([]string{filepath.Base(file), text})
				}
			}
			return true
		})
	}
}

type sizes struct{ root *k8scel.DeclType }

func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if len(element.Path()) == 0 || s.root == nil {
		return nil
	}
	at := s.root
	for _, step := range element.Path()[1:] {
		switch step {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field, ok := at.Fields[step]
			if !ok {
				return nil
			}
			at = field.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(at.MaxElements)}
}

func reply(base *environment.EnvSet, asked question) answer {
	env, err := base.Env(environment.NewExpressions)
	if err != nil {
		fail(err)
	}
	var root *k8scel.DeclType
	activation := map[string]any{}
	if asked.Schema != nil {
		structural := structure(asked.Schema)
		root = model.SchemaDeclType(structural, false).MaybeAssignTypeName("selfType")
		extended, err := base.Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        []cel.EnvOption{cel.Variable("self", root.CelType())},
			DeclTypes:         []*k8scel.DeclType{root},
		})
		if err != nil {
			fail(err)
		}
		if env, err = extended.Env(environment.NewExpressions); err != nil {
			fail(err)
		}
		activation["self"] = common.UnstructuredToVal(plain(asked.Object), &model.Structural{Structural: structural})
	}
	estimator := &library.CostEstimator{SizeEstimator: &sizes{root}}
	compiled, issues := env.Compile(asked.Expression)
	if issues.Err() != nil {
		return answer{CompileError: issues.Err().Error()}
	}
	found := answer{Type: compiled.OutputType().String()}
	estimate, err := env.EstimateCost(compiled, estimator)
	if err != nil {
		fail(err)
	}
	found.Min, found.Max = estimate.Min, estimate.Max
	program, err := env.Program(compiled, cel.CostTracking(estimator))
	if err != nil {
		found.CompileError = err.Error()
		return found
	}
	value, details, err := program.Eval(activation)
	if details != nil && details.ActualCost() != nil {
		found.Cost = *details.ActualCost()
	}
	if err != nil {
		found.Failed = err.Error()
		return found
	}
	found.Value = show(value)
	return found
}

func structure(raw json.RawMessage) *schema.Structural {
	var external apiextv1.JSONSchemaProps
	if err := json.Unmarshal(raw, &external); err != nil {
		fail(err)
	}
	var internal apiext.JSONSchemaProps
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &internal, nil); err != nil {
		fail(err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		fail(err)
	}
	return structural
}
