package main

import (
	"context"
	"encoding/json"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unmarshal reads whole numbers as int64, as the API server does.
func unmarshal(text []byte, into any) error {
	return utiljson.Unmarshal(text, into)
}

func texts(errs field.ErrorList) []string {
	out := []string{}
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// structural accepts or refuses a CRD's schema, then prunes, defaults and validates an object.
func structural(question testCase) (any, error) {
	var versioned apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(question.Schema, &versioned); err != nil {
		return nil, err
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&versioned, &schema, nil); err != nil {
		return nil, err
	}
	answer := map[string]any{}
	refused := texts(validation.ValidateCustomResourceDefinition(context.Background(), definition(&schema)))
	answer["refused"] = refused
	if len(refused) > 0 || question.Object == nil {
		return answer, nil
	}
	structural, err := structuralschema.NewStructural(&schema)
	if err != nil {
		return nil, err
	}
	object := runtime.DeepCopyJSON(question.Object)
	coerced, unknownMeta := objectmeta.CoerceWithOptions(nil, object, structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if coerced != nil {
		answer["coercion"] = coerced.Error()
		return answer, nil
	}
	unknown := pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	answer["unknown"] = append(unknown, unknownMeta...)
	answer["pruned"] = runtime.DeepCopyJSON(object)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
	defaulting.Default(object, structural)
	answer["defaulted"] = runtime.DeepCopyJSON(object)
	validator, _, err := apiservervalidation.NewSchemaValidator(&schema)
	if err != nil {
		return nil, err
	}
	errs := apiservervalidation.ValidateCustomResource(nil, object, validator)
	errs = append(errs, objectmeta.Validate(nil, object, structural, false)...)
	lists := listtype.ValidateListSetsAndMaps(nil, structural, object)
	answer["invalid"] = texts(append(errs, lists...))
	if question.Old != nil {
		errs := apiservervalidation.ValidateCustomResourceUpdate(nil, object, question.Old, validator, apiservervalidation.WithRatcheting(nil))
		errs = append(errs, objectmeta.Validate(nil, object, structural, false)...)
		if len(listtype.ValidateListSetsAndMaps(nil, structural, question.Old)) == 0 {
			errs = append(errs, lists...)
		}
		answer["invalidUpdate"] = texts(errs)
	}
	return answer, nil
}

func definition(schema *apiextensions.JSONSchemaProps) *apiextensions.CustomResourceDefinition {
	names := apiextensions.CustomResourceDefinitionNames{Plural: "xs", Singular: "x", Kind: "X", ListKind: "XList"}
	preserve := false
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "xs.x.io"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group:                 "x.io",
			Names:                 names,
			Scope:                 apiextensions.NamespaceScoped,
			Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema},
			Versions:              []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
			Conversion:            &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
			PreserveUnknownFields: &preserve,
		},
		Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
}
