// Package record writes what the instrumented packages do, one JSON object per line.
//
// It is put into a copy of structured-merge-diff by `cargo xtask conformance apply`.
package record

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"sync"

	yaml "go.yaml.in/yaml/v2"
)

var (
	mutex    sync.Mutex
	out      *bufio.Writer
	names    = map[any]string{}
	written  = map[string]bool{}
	only     = os.Getenv("SMD_RECORD_ONLY")
	sequence = 0
	current  = 0
)

// Raw is JSON that has been encoded already.
type Raw = json.RawMessage

// Begin starts a sequence: the calls until End belong together.
func Begin() {
	mutex.Lock()
	defer mutex.Unlock()
	sequence++
	current = sequence
}

// End ends the sequence.
func End(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	mutex.Lock()
	number := current
	current = 0
	mutex.Unlock()
	Line(map[string]any{"op": "end", "sequence": number, "err": text})
}

// Call writes one call with its inputs and outputs.
func Call(entry map[string]any) {
	mutex.Lock()
	entry["sequence"] = current
	mutex.Unlock()
	entry["test"] = test()
	Line(entry)
}

// Schema writes a schema, given by pointer, once and returns its name.
func Schema(schema any) string {
	mutex.Lock()
	name, known := names[schema]
	mutex.Unlock()
	if known {
		return name
	}
	raw := YAML(schema)
	sum := sha256.Sum256(raw)
	name = hex.EncodeToString(sum[:8])
	mutex.Lock()
	names[schema] = name
	mutex.Unlock()
	Line(map[string]any{"op": "schema", "name": name, "schema": raw})
	return name
}

// YAML turns a value with yaml tags into JSON.
func YAML(value any) Raw {
	text, err := yaml.Marshal(value)
	if err != nil {
		panic(err)
	}
	var generic any
	if err := yaml.Unmarshal(text, &generic); err != nil {
		panic(err)
	}
	raw, err := json.Marshal(plain(generic))
	if err != nil {
		panic(err)
	}
	return raw
}

func plain(value any) any {
	switch value := value.(type) {
	case map[any]any:
		out := map[string]any{}
		for key, entry := range value {
			out[key.(string)] = plain(entry)
		}
		return out
	case []any:
		for i := range value {
			value[i] = plain(value[i])
		}
	}
	return value
}

// Once writes an entry that has not been written yet.
func Once(entry map[string]any) {
	text, err := json.Marshal(entry)
	if err != nil {
		panic(err)
	}
	mutex.Lock()
	known := written[string(text)]
	written[string(text)] = true
	mutex.Unlock()
	if !known {
		Line(entry)
	}
}

// Line writes one line.
func Line(entry map[string]any) {
	if only != "" && entry["op"] != only && entry["op"] != "schema" {
		return
	}
	line, err := json.Marshal(entry)
	if err != nil {
		panic(err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	if out == nil {
		file, err := os.OpenFile(os.Getenv("SMD_RECORD"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			panic(err)
		}
		out = bufio.NewWriter(file)
	}
	out.Write(line)
	out.WriteByte('\n')
	out.Flush()
}

// test is the name of the running test function.
func test() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		name := frame.Function[strings.LastIndex(frame.Function, "/")+1:]
		pkg, name, _ := strings.Cut(name, ".")
		name, _, _ = strings.Cut(name, ".")
		if strings.HasSuffix(pkg, "_test") && strings.HasPrefix(strings.ToLower(name), "test") {
			return name
		}
		if !more {
			return ""
		}
	}
}
