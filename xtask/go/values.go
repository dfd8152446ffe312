// Values as both sides write them.
package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	k8scel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// plain turns numbers into those that the API server has.
func plain(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, _ := value.Float64()
		return float
	case []any:
		for index := range value {
			value[index] = plain(value[index])
		}
		return value
	case map[string]any:
		for key := range value {
			value[key] = plain(value[key])
		}
		return value
	default:
		return value
	}
}

// own writes values of types that only one of the programs knows.
var own = func(ref.Val) (string, bool) { return "", false }

// show writes a value with its type.
func show(value ref.Val) string {
	switch value := value.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return strconv.FormatBool(bool(value))
	case types.Int:
		return strconv.FormatInt(int64(value), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(value), 10) + "u"
	case types.Double:
		return "double " + strconv.FormatFloat(float64(value), 'e', -1, 64)
	case types.String:
		return strconv.Quote(string(value))
	case types.Bytes:
		return fmt.Sprintf("bytes %x", []byte(value))
	case types.Timestamp:
		return "time " + string(value.ConvertToType(types.StringType).(types.String))
	case types.Duration:
		return "duration " + string(value.ConvertToType(types.StringType).(types.String))
	case *types.Optional:
		if !value.HasValue() {
			return "none"
		}
		return "some " + show(value.GetValue())
	case traits.Lister:
		var items []string
		for it := value.Iterator(); it.HasNext() == types.True; {
			items = append(items, show(it.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case traits.Mapper:
		var entries []string
		for it := value.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, show(key)+": "+show(value.Get(key)))
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	case *types.Type:
		return "type " + value.TypeName()
	case k8scel.Quantity:
		return opaque(value, number(value))
	case *k8scel.Quantity:
		return opaque(value, number(*value))
	case k8scel.IP:
		return opaque(value, value.Addr.String())
	case k8scel.CIDR:
		return opaque(value, value.Prefix.String())
	case k8scel.Semver:
		return opaque(value, value.Version.String())
	case k8scel.URL:
		return opaque(value, value.URL.String())
	case k8scel.Format:
		return opaque(value, nameOf(value))
	default:
		if text, ok := own(value); ok {
			return opaque(value, text)
		}
		fail(fmt.Errorf("a %s (%T) is not shown", value.Type().TypeName(), value))
		return ""
	}
}

func opaque(value ref.Val, text string) string {
	return value.Type().TypeName() + " " + text
}

// number writes a quantity exactly: digits without zeros at the end, and a power of ten.
func number(value k8scel.Quantity) string {
	copied := value.Quantity.DeepCopy()
	exact := copied.AsDec()
	if exact.Sign() == 0 {
		return "0"
	}
	digits := exact.UnscaledBig().String()
	short := strings.TrimRight(digits, "0")
	return fmt.Sprintf("%se%d", short, len(digits)-len(short)-int(exact.Scale()))
}

// nameOf finds the name by which expressions ask for a format.
func nameOf(value k8scel.Format) string {
	for name, format := range library.ConstantFormats {
		if format.Name == value.Name {
			return name
		}
	}
	return value.Name
}
