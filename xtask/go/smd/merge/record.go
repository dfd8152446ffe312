package merge

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/internal/record"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// recordingConverter remembers all conversions, so that they can be repeated elsewhere.
type recordingConverter struct {
	Converter
	calls []any
}

func (c *recordingConverter) Convert(object *typed.TypedValue, version fieldpath.APIVersion) (*typed.TypedValue, error) {
	out, err := c.Converter.Convert(object, version)
	call := map[string]any{"in": object.Record(), "version": string(version)}
	if err != nil {
		call["err"] = err.Error()
		call["gone"] = c.Converter.IsMissingVersionError(err)
	} else {
		call["out"] = out.Record()
	}
	c.calls = append(c.calls, call)
	record.Once(map[string]any{"op": "conversion", "converter": fmt.Sprintf("%T", c.Converter), "call": call})
	return out, err
}

func (s *Updater) recorded(entry map[string]any, managers fieldpath.ManagedFields, call func(*Updater) (*typed.TypedValue, fieldpath.ManagedFields, error)) (*typed.TypedValue, fieldpath.ManagedFields, error) {
	filters := map[string]any{}
	for version, set := range s.IgnoredFields {
		if set != nil {
			filters[string(version)] = map[string]any{"exclude": fieldpath.RecordSet(set)}
		}
	}
	for version, filter := range s.IgnoreFilter {
		filters[string(version)] = fieldpath.RecordFilter(filter)
	}
	entry["filters"] = filters
	entry["managers"] = fieldpath.RecordManagers(managers)
	entry["keepsInput"] = s.returnInputOnNoop
	entry["converter"] = fmt.Sprintf("%T", s.Converter)

	converter := &recordingConverter{Converter: s.Converter}
	recording := *s
	recording.Converter = converter
	object, after, err := call(&recording)
	entry["conversions"] = converter.calls
	switch err := err.(type) {
	case nil:
		if object != nil {
			entry["out"] = object.Record()
		}
		entry["after"] = fieldpath.RecordManagers(after)
	case Conflicts:
		conflicts := []any{}
		for _, conflict := range err {
			conflicts = append(conflicts, map[string]any{
				"manager": conflict.Manager, "path": fieldpath.RecordPath(conflict.Path),
			})
		}
		entry["conflicts"] = conflicts
	default:
		entry["err"] = err.Error()
	}
	record.Call(entry)
	return object, after, err
}

// Update records a call of the original.
func (s *Updater) Update(liveObject, newObject *typed.TypedValue, version fieldpath.APIVersion, managers fieldpath.ManagedFields, manager string) (*typed.TypedValue, fieldpath.ManagedFields, error) {
	entry := map[string]any{
		"op": "update", "live": liveObject.Record(), "new": newObject.Record(),
		"version": string(version), "manager": manager,
	}
	return s.recorded(entry, managers, func(s *Updater) (*typed.TypedValue, fieldpath.ManagedFields, error) {
		return s.updateUnrecorded(liveObject, newObject, version, managers, manager)
	})
}

// Apply records a call of the original.
func (s *Updater) Apply(liveObject, configObject *typed.TypedValue, version fieldpath.APIVersion, managers fieldpath.ManagedFields, manager string, force bool) (*typed.TypedValue, fieldpath.ManagedFields, error) {
	entry := map[string]any{
		"op": "apply", "live": liveObject.Record(), "new": configObject.Record(),
		"version": string(version), "manager": manager, "force": force,
	}
	return s.recorded(entry, managers, func(s *Updater) (*typed.TypedValue, fieldpath.ManagedFields, error) {
		return s.applyUnrecorded(liveObject, configObject, version, managers, manager, force)
	})
}
