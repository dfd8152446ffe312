package fieldpath

import "sigs.k8s.io/structured-merge-diff/v6/internal/record"

// RecordSet is a set in its wire form.
func RecordSet(set *Set) any {
	if set == nil {
		return nil
	}
	raw, err := set.ToJSON()
	if err != nil {
		panic(err)
	}
	return record.Raw(raw)
}

// RecordPath is a path as a list of elements in their wire form.
func RecordPath(path Path) []string {
	out := []string{}
	for _, element := range path {
		text, err := SerializePathElement(element)
		if err != nil {
			panic(err)
		}
		out = append(out, text)
	}
	return out
}

// RecordManagers is all managers with their sets.
func RecordManagers(managers ManagedFields) any {
	out := map[string]any{}
	for name, owned := range managers {
		out[name] = map[string]any{
			"set":     RecordSet(owned.Set()),
			"version": string(owned.APIVersion()),
			"applied": owned.Applied(),
		}
	}
	return out
}

// RecordFilter is a filter, with what it excludes or includes.
func RecordFilter(filter Filter) any {
	switch filter := filter.(type) {
	case excludeFilter:
		return map[string]any{"exclude": RecordSet(filter.excludeSet)}
	case includeMatcherFilter:
		return map[string]any{"include": recordMatcher(filter.matcher)}
	default:
		return nil
	}
}

func recordMatcher(matcher *SetMatcher) any {
	if matcher.wildcard {
		return "*"
	}
	steps := []any{}
	for _, member := range matcher.members {
		step := map[string]any{"below": recordMatcher(member.Child)}
		if !member.Path.Wildcard {
			step["element"] = RecordPath(Path{member.Path.PathElement})[0]
		}
		steps = append(steps, step)
	}
	return steps
}
