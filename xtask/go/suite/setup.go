// Package environment starts what the specs of kro's integration suite run against: a real API
// server and, in place of kro's controllers, the program that DELTAPLANE_PROGRAM names.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	internalv1alpha1 "github.com/kubernetes-sigs/kro/api/internal.kro.run/v1alpha1"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	kroclient "github.com/kubernetes-sigs/kro/pkg/client"
	ctrlinstance "github.com/kubernetes-sigs/kro/pkg/controller/instance"
)

// Environment is an API server, a controller of its graphs, and clients.
type Environment struct {
	ControllerConfig ControllerConfig
	Client           client.Client
	ClientSet        *kroclient.Set
	TestEnv          *envtest.Environment
	CtrlManager      manager

	directory  string
	controller *exec.Cmd
}

// manager is what specs use of a controller manager.
type manager struct {
	reader client.Reader
}

func (m manager) GetAPIReader() client.Reader {
	return m.reader
}

// ControllerConfig is what specs ask of a controller.
type ControllerConfig struct {
	AllowCRDDeletion  bool
	ReconcileConfig   ctrlinstance.ReconcileConfig
	MaxGraphRevisions int
	LogWriter         io.Writer
}

// The suite keeps this many revisions of a definition unless a spec says otherwise.
const usualRevisions = 20

// patience is how long a process may take to end.
const patience = 30 * time.Second

func init() {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// New starts an API server and a controller.
func New(ctx context.Context, config ControllerConfig) (*Environment, error) {
	env := &Environment{ControllerConfig: config}
	if err := env.start(); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return env, nil
}

// NewShared connects to an API server that another process started.
func NewShared(ctx context.Context, config *rest.Config) (*Environment, error) {
	env := &Environment{}
	return env, env.connect(config)
}

func (env *Environment) start() error {
	directory, err := os.MkdirTemp("", "kro-suite-")
	if err != nil {
		return err
	}
	env.directory = directory
	kinds := []string{filepath.Join("..", "..", "..", "..", "helm", "crds")}
	for _, name := range []string{"ec2", "iam", "eks"} {
		kinds = append(kinds, filepath.Join("..", "..", "crds", "ack-"+name+"-controller"))
	}
	env.TestEnv = &envtest.Environment{
		CRDDirectoryPaths:        kinds,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  2 * time.Minute,
	}
	server := env.TestEnv.ControlPlane.GetAPIServer().Configure()
	server.Append("enable-admission-plugins", "ValidatingAdmissionPolicy")
	server.Set("enable-priority-and-fairness", "false")
	server.Set("max-requests-inflight", "800")
	server.Set("max-mutating-requests-inflight", "400")
	config, err := env.TestEnv.Start()
	if err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	if err := env.connect(config); err != nil {
		return err
	}
	if err := os.WriteFile(env.kubeconfig(), env.TestEnv.KubeConfig, 0o600); err != nil {
		return err
	}
	return env.startController()
}

func (env *Environment) connect(config *rest.Config) error {
	for _, add := range []func() error{
		func() error { return internalv1alpha1.AddToScheme(scheme.Scheme) },
		func() error { return krov1alpha1.AddToScheme(scheme.Scheme) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	set, err := kroclient.NewSet(kroclient.Config{RestConfig: config})
	if err != nil {
		return fmt.Errorf("creating clients: %w", err)
	}
	env.ClientSet = set
	env.Client, err = client.New(set.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	env.CtrlManager = manager{env.Client}
	return err
}

func (env *Environment) kubeconfig() string {
	return filepath.Join(env.directory, "kubeconfig")
}

func (env *Environment) startController() error {
	revisions := env.ControllerConfig.MaxGraphRevisions
	if revisions <= 0 {
		revisions = usualRevisions
	}
	words := []string{
		"zone", "--standalone", "--kubeconfig", env.kubeconfig(),
		"--data-dir", filepath.Join(env.directory, "data"),
		"--graph-revisions", strconv.Itoa(revisions),
		// kro's specs rely on the rights of its controller.
		"--graph-identity", "controller",
	}
	if env.ControllerConfig.AllowCRDDeletion {
		words = append(words, "--delete-graph-kinds")
	}
	logs := os.Getenv("DELTAPLANE_LOGS")
	log, err := os.OpenFile(filepath.Join(logs, fmt.Sprintf("%d.log", os.Getpid())),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	env.controller = exec.Command(os.Getenv("DELTAPLANE_PROGRAM"), words...)
	env.controller.Stdout, env.controller.Stderr = log, log
	return env.controller.Start()
}

// RestartControllers ends the controller and starts another.
func (env *Environment) RestartControllers() error {
	if err := env.stopController(); err != nil {
		return err
	}
	return env.startController()
}

func (env *Environment) stopController() error {
	if env.controller == nil || env.controller.Process == nil {
		return nil
	}
	process := env.controller.Process
	if err := process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = process.Kill() })
	defer late.Stop()
	// How it ended is no concern of the specs.
	_ = env.controller.Wait()
	env.controller = nil
	return nil
}

// Stop ends everything that was started.
func (env *Environment) Stop() error {
	if env == nil {
		return nil
	}
	err := env.stopController()
	if env.TestEnv != nil {
		err = errors.Join(err, env.TestEnv.Stop())
	}
	if env.directory != "" {
		err = errors.Join(err, os.RemoveAll(env.directory))
	}
	return err
}
