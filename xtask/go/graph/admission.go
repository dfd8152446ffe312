package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

var extensions = newScheme()

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}

// admission does what an API server does with objects of a kind that is defined.
type admission struct {
	structural *structuralschema.Structural
	validator  apiservervalidation.SchemaValidator
	rules      *cel.Validator
}

func newAdmission(file string) (*admission, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	definition := &extv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, definition); err != nil {
		return nil, err
	}
	internal, err := converted(definition)
	if err != nil {
		return nil, err
	}
	// Conversion puts the schema of a single version here.
	schema := internal.Spec.Validation.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := apiservervalidation.NewSchemaValidator(schema)
	if err != nil {
		return nil, err
	}
	return &admission{
		structural: structural,
		validator:  validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// admit fills in an object as the API does, or says why it is refused. Unknown fields are, as they
// are for kubectl.
func (a *admission) admit(object map[string]any) string {
	unknown := pruning.PruneWithOptions(object, a.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return "unknown fields: " + strings.Join(unknown, ", ")
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, a.structural)
	defaulting.Default(object, a.structural)
	errs := apiservervalidation.ValidateCustomResource(nil, object, a.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, a.structural, object)...)
	if len(errs) == 0 {
		broken, _ := a.rules.Validate(context.Background(), field.NewPath(""), a.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}

func converted(definition *extv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	definition = definition.DeepCopy()
	extensions.Default(definition)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := extensions.Convert(definition, internal, nil); err != nil {
		return nil, fmt.Errorf("converting %s: %w", definition.Name, err)
	}
	return internal, nil
}

// refusedDefinition says why the API does not take a definition, if it does not.
func refusedDefinition(definition *extv1.CustomResourceDefinition) string {
	internal, err := converted(definition)
	if err != nil {
		return err.Error()
	}
	internal.Status.StoredVersions = []string{internal.Spec.Versions[0].Name}
	errs := validation.ValidateCustomResourceDefinition(context.Background(), internal)
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}
