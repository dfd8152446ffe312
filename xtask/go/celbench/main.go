// Measures cel-go: reads {"object": …, "expressions": […]} from stdin, writes one line of JSON for
// each expression, then one with the memory of many compiled programs.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

type input struct {
	Object       map[string]any `json:"object"`
	Expressions  []string       `json:"expressions"`
	Milliseconds int64          `json:"milliseconds"`
	Programs     int            `json:"programs"`
}

type figures struct {
	CompileNs float64 `json:"compileNs"`
	EvalNs    float64 `json:"evalNs"`
	BoundedNs float64 `json:"boundedNs"`
	Bytes     uint64  `json:"bytes"`
}

// Others use this machine, too: the best of many short rounds counts.
const rounds = 15

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// each runs the function again and again and returns the time that one run takes.
func each(milliseconds int64, run func()) float64 {
	best := 0.0
	for round := int64(0); round < rounds; round++ {
		count := 0
		start := time.Now()
		for time.Since(start) < time.Duration(milliseconds)*time.Millisecond/rounds {
			for i := 0; i < 100; i++ {
				run()
			}
			count += 100
		}
		taken := float64(time.Since(start).Nanoseconds()) / float64(count)
		if best == 0 || taken < best {
			best = taken
		}
	}
	return best
}

func whole(value any) any {
	switch value := value.(type) {
	case float64:
		if value == float64(int64(value)) {
			return int64(value)
		}
		return value
	case []any:
		for i := range value {
			value[i] = whole(value[i])
		}
		return value
	case map[string]any:
		for key := range value {
			value[key] = whole(value[key])
		}
		return value
	default:
		return value
	}
}

func main() {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fail(err)
	}
	object := whole(in.Object).(map[string]any)
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), ext.Strings(), ext.Lists(), ext.TwoVarComprehensions(), cel.OptionalTypes())
	if err != nil {
		fail(err)
	}
	// The budget that ours has, and how often Kubernetes looks whether a request was cancelled.
	bounded := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(1000000), cel.InterruptCheckFrequency(100)}
	compile := func(expression string, options ...cel.ProgramOption) cel.Program {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			fail(issues.Err())
		}
		program, err := env.Program(ast, options...)
		if err != nil {
			fail(err)
		}
		return program
	}
	out := json.NewEncoder(os.Stdout)
	for _, expression := range in.Expressions {
		check := func() {
			if _, issues := env.Compile(expression); issues.Err() != nil {
				fail(issues.Err())
			}
		}
		found := figures{CompileNs: each(in.Milliseconds, check)}
		evaluate := func(options ...cel.ProgramOption) float64 {
			program := compile(expression, options...)
			return each(in.Milliseconds, func() {
				if _, _, err := program.Eval(map[string]any{"object": object}); err != nil {
					fail(err)
				}
			})
		}
		found.EvalNs = evaluate(cel.EvalOptions(cel.OptOptimize))
		found.BoundedNs = evaluate(bounded...)
		if err := out.Encode(found); err != nil {
			fail(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	programs := make([]cel.Program, 0, in.Programs)
	for i := 0; i < in.Programs; i++ {
		programs = append(programs, compile(in.Expressions[i%len(in.Expressions)], bounded...))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err := out.Encode(figures{Bytes: after.HeapAlloc - before.HeapAlloc}); err != nil {
		fail(err)
	}
	runtime.KeepAlive(programs)
}
