package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllersoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// The parts are run through their Run functions. Their cobra commands set up signals and logs, which a process can do only once.

// startEtcd returns the URL at which etcd listens.
func startEtcd(dir string) (string, error) {
	c := embed.NewConfig()
	c.Dir = filepath.Join(dir, "etcd")
	somewhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.AdvertiseClientUrls = somewhere, somewhere
	c.ListenPeerUrls, c.AdvertisePeerUrls = somewhere, somewhere
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.UnsafeNoFsync = true // kill -9 loses nothing that was written; only a crash of the machine would
	c.LogLevel = "error"
	c.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return "", err
	}
	<-e.Server.ReadyNotify()
	return "http://" + e.Clients[0].Addr().String(), nil
}

func runAPIServer(ctx context.Context, ln net.Listener, etcd string, k *keys) error {
	s := apiserveroptions.NewServerRunOptions()
	if err := parseFlags("kube-apiserver", s.Flags(),
		"--etcd-servers="+etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file="+k.path("apiserver.crt"),
		"--tls-private-key-file="+k.path("apiserver.key"),
		"--client-ca-file="+k.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+k.path("sa.pub"),
		"--service-account-signing-key-file="+k.path("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--profiling=false",
		// No limits: a test that needs a 429 makes it.
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
		"--enable-priority-and-fairness=false",
	); err != nil {
		return err
	}
	s.SecureServing.Listener = ln
	s.SecureServing.BindPort = ln.Addr().(*net.TCPAddr).Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return apiserver.Run(ctx, completed)
}

func runControllers(ctx context.Context, kubeconfig string, k *keys) error {
	s, err := controllersoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	all, disabled, aliases := controllers.KnownControllers(), controllers.ControllersDisabledByDefault(), controllers.ControllerAliases()
	flags := s.Flags(all, disabled, aliases)
	s.ParsedFlags = &flags
	if err := parseFlags("kube-controller-manager", flags,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file="+k.path("sa.key"),
		"--root-ca-file="+k.path("ca.crt"),
		"--use-service-account-credentials=true",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--pvclaimbinder-sync-period=2s",
		// A test may stop this process for long; that makes no node bad.
		"--node-monitor-grace-period=1h",
	); err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	config, err := s.Config(ctx, all, disabled, aliases)
	if err != nil {
		return err
	}
	return controllers.Run(ctx, config.Complete())
}

func runScheduler(ctx context.Context, kubeconfig string) error {
	o := scheduleroptions.NewOptions()
	if err := parseFlags("kube-scheduler", *o.Flags,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000",
	); err != nil {
		return err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	config, s, err := scheduler.Setup(ctx, o)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, config, s)
}

func parseFlags(name string, sets cliflag.NamedFlagSets, args ...string) error {
	all := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, f := range sets.FlagSets {
		all.AddFlagSet(f)
	}
	return all.Parse(args)
}
