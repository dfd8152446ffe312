// Oracle answers what Kubernetes' own code makes of the cases on standard input, one JSON object
// per line each way. It is built and fed by `cargo xtask conformance apply --fuzz`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// testCase is one question. Which fields it has depends on its kind.
type testCase struct {
	Kind   string          `json:"kind"`
	Schema json.RawMessage `json:"schema"`
	Object map[string]any  `json:"object"`
	Old    map[string]any  `json:"old"`
	Patch  map[string]any  `json:"patch"`
	Type   string          `json:"type"`
	Ops    []operation     `json:"ops"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for in.Scan() {
		answer, err := ask(in.Bytes())
		if err != nil {
			answer = map[string]any{"failure": err.Error()}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			line, _ = json.Marshal(map[string]any{"failure": err.Error()})
		}
		out.Write(line)
		out.WriteByte('\n')
		out.Flush()
	}
}

func ask(line []byte) (answer any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	var question testCase
	if err := unmarshal(line, &question); err != nil {
		return nil, err
	}
	switch question.Kind {
	case "structural":
		return structural(question)
	case "strategic":
		return strategic(question)
	case "managed":
		return managed(question)
	default:
		return nil, fmt.Errorf("unknown kind %q", question.Kind)
	}
}
