package typed

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/internal/record"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Record is a typed value with its type.
func (tv TypedValue) Record() map[string]any {
	return map[string]any{
		"schema": record.Schema(tv.schema),
		"type":   record.YAML(tv.typeRef),
		"value":  RecordValue(tv.value),
	}
}

// RecordValue is a value.
func RecordValue(v value.Value) any {
	if v == nil {
		return nil
	}
	raw, err := value.ToJSON(v)
	if err != nil {
		panic(err)
	}
	return record.Raw(raw)
}

func failure(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func recordOut(tv *TypedValue) any {
	if tv == nil {
		return nil
	}
	return RecordValue(tv.value)
}

func (tv TypedValue) Validate(opts ...ValidationOptions) error {
	err := tv.validateUnrecorded(opts...)
	record.Call(map[string]any{"op": "validate", "in": tv.Record(), "duplicates": len(opts) > 0, "err": failure(err)})
	return err
}

func (tv TypedValue) ToFieldSet() (*fieldpath.Set, error) {
	set, err := tv.toFieldSetUnrecorded()
	record.Call(map[string]any{"op": "fields", "in": tv.Record(), "out": fieldpath.RecordSet(set), "err": failure(err)})
	return set, err
}

func (tv TypedValue) Merge(pso *TypedValue) (*TypedValue, error) {
	out, err := tv.mergeUnrecorded(pso)
	record.Call(map[string]any{"op": "merge", "in": tv.Record(), "with": pso.Record(), "out": recordOut(out), "err": failure(err)})
	return out, err
}

func (tv TypedValue) Compare(rhs *TypedValue) (*Comparison, error) {
	c, err := tv.compareUnrecorded(rhs)
	entry := map[string]any{"op": "compare", "in": tv.Record(), "with": rhs.Record(), "err": failure(err)}
	if c != nil {
		entry["out"] = map[string]any{
			"removed":  fieldpath.RecordSet(c.Removed),
			"modified": fieldpath.RecordSet(c.Modified),
			"added":    fieldpath.RecordSet(c.Added),
		}
	}
	record.Call(entry)
	return c, err
}

func (tv TypedValue) RemoveItems(items *fieldpath.Set) *TypedValue {
	out := tv.removeItemsUnrecorded(items)
	record.Call(map[string]any{"op": "remove", "in": tv.Record(), "set": fieldpath.RecordSet(items), "out": recordOut(out)})
	return out
}

func (tv TypedValue) ExtractItems(items *fieldpath.Set, opts ...ExtractItemsOption) *TypedValue {
	out := tv.extractItemsUnrecorded(items, opts...)
	if len(opts) == 0 {
		record.Call(map[string]any{"op": "extract", "in": tv.Record(), "set": fieldpath.RecordSet(items), "out": recordOut(out)})
	}
	return out
}

// ReconcileFieldSetWithSchema records a call of the original.
func ReconcileFieldSetWithSchema(fieldset *fieldpath.Set, tv *TypedValue) (*fieldpath.Set, error) {
	set, err := reconcileUnrecorded(fieldset, tv)
	record.Call(map[string]any{
		"op": "reconcile", "in": tv.Record(), "set": fieldpath.RecordSet(fieldset),
		"out": fieldpath.RecordSet(set), "err": failure(err),
	})
	return set, err
}
