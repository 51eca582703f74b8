package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"berth/cmd/worker/bench"
	"berth/internal/defaults"
	"berth/internal/terminal"
)

const description = `Gives every deployment the backing resources that it needs, through pluggable provisioners, over a queue in Postgres.

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed or not reached, 2 wrong use, 3 refused with a reason.`

// cli is the command line. A flag beats the environment, which beats a default.
type cli struct {
	DatabaseURL string `name:"database-url" placeholder:"URL" envvar:"DATABASE_URL" help:"The database, as postgres://user:password@host:5432/database."`
	LogLevel    string `name:"log-level" placeholder:"LEVEL" envvar:"LOG_LEVEL" default:"" enum:",debug,info,warn,error" help:"What is logged: debug, info, warn or error. For run info, else warn, if not given."`

	Run    runCommand `cmd:"" help:"Take jobs until a signal ends it. A line ready on stdout says that it takes them."`
	Dev    devCommand `cmd:"" help:"Show it at work: a private Postgres, stub runtimes, sample data, a worker."`
	Config struct {
		Check configCheck `cmd:"" help:"Check the configured provisioners and show them, secrets masked."`
	} `cmd:"" help:"The configured provisioners."`
	Completion  completion   `cmd:"" help:"Write a script that has a shell complete commands and flags."`
	Bench       benchCommand `cmd:"" help:"Measure the figures, each side by side with its yardstick, on a private Postgres."`
	Healthcheck healthcheck  `cmd:"" help:"Ask the worker of this machine whether it is ready: 0 if it is, 1 with the reasons if not."`
	Migrate     struct {
		Up     migrateUp     `cmd:"" help:"Bring the schema to what this worker needs. May be repeated."`
		Down   migrateDown   `cmd:"" help:"Drop all tables. Refused while there are deployments or resources."`
		Status migrateStatus `cmd:"" help:"Show how far the schema is migrated."`
	} `cmd:"" help:"The schema of the database."`
	Org struct {
		Create orgCreate `cmd:"" help:"Create an organization."`
		List   orgList   `cmd:"" help:"List organizations."`
		Show   orgShow   `cmd:"" help:"Show one organization."`
		Update orgUpdate `cmd:"" help:"Change what an organization's new deployments start from."`
		Delete orgDelete `cmd:"" help:"Delete an organization and its projects. Refused while it has deployments."`
	} `cmd:"" help:"Organizations: who projects belong to."`
	Project struct {
		Create projectCreate `cmd:"" help:"Create a project."`
		List   projectList   `cmd:"" help:"List projects."`
		Show   projectShow   `cmd:"" help:"Show one project."`
		Update projectUpdate `cmd:"" help:"Change what a project's new deployments start from. What exists stays as it is."`
		Delete projectDelete `cmd:"" help:"Delete a project. Refused while it has deployments."`
	} `cmd:"" help:"Projects: what deployments are made from."`
	Deployment struct {
		Create  deploymentCreate  `cmd:"" help:"Create a deployment. The same id again is the same deployment, as it is by then."`
		List    deploymentList    `cmd:"" help:"List deployments, a page at a time."`
		Show    deploymentShow    `cmd:"" help:"Show one deployment, its resources, and why it is not as it should be."`
		Events  deploymentEvents  `cmd:"" help:"List what happened to a deployment. It answers for deleted ones too."`
		Start   deploymentStart   `cmd:"" help:"Have a deployment run. One that failed is tried again now."`
		Stop    deploymentStop    `cmd:"" help:"Have a deployment cost as little as it can without losing its data."`
		Restart deploymentRestart `cmd:"" help:"Stop a deployment's resources and start them again."`
		Update  deploymentUpdate  `cmd:"" help:"Change what a deployment asks for."`
		Delete  deploymentDelete  `cmd:"" help:"Have a deployment go, its data included."`
		Wait    deploymentWait    `cmd:"" help:"Wait until a deployment is in a state."`
	} `cmd:"" help:"Deployments: running copies of projects."`
	Resource struct {
		List      resourceList      `cmd:"" help:"List resources, a page at a time."`
		Show      resourceShow      `cmd:"" help:"Show one resource, where it is, and why it is not as it should be."`
		Reconcile resourceReconcile `cmd:"" help:"Have a resource looked at again now, however it stands."`
		Plan      resourcePlan      `cmd:"" help:"Say object by object what a worker would change to have a resource run, and change nothing."`
		Pause     resourcePause     `cmd:"" help:"Make, repair and restart nothing of a resource until it is resumed. Stop and delete go on."`
		Resume    resourceResume    `cmd:"" help:"End the pause of a resource. What it held is done at once."`
	} `cmd:"" help:"Resources: what deployments need."`
	Provisioner struct {
		List     provisionerList     `cmd:"" help:"List provisioners, with their hosts and the room there."`
		Show     provisionerShow     `cmd:"" help:"Show one provisioner, with its hosts and what keeps it from being worked."`
		Explain  provisionerExplain  `cmd:"" help:"Say where a new resource of a static pool would be placed, or why not, host by host."`
		Pause    provisionerPause    `cmd:"" help:"Make, repair and restart nothing at a provisioner until it is resumed. Stop and delete go on."`
		Resume   provisionerResume   `cmd:"" help:"End the pause of a provisioner. What it held is done at once, in order."`
		Activate provisionerActivate `cmd:"" help:"Have the configuration of a provisioner act that workers have and that waits, because they have different ones."`
		Cordon   provisionerCordon   `cmd:"" help:"Let a host of a static pool take no new resources."`
		Uncordon provisionerUncordon `cmd:"" help:"Let a host of a static pool take new resources again."`
	} `cmd:"" help:"Provisioners: the backends that resources are at."`
}

// run does what the arguments ask for. Nothing of it touches the process: not its environment, its streams, or its exit.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) error {
	var c cli
	helped := false
	parser, err := kong.New(&c,
		kong.Name("worker"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: terminal.Width}), kong.ValueFormatter(showEnv),
		kong.Resolvers(fromEnv(lookupEnv)),
		kong.Vars(vars()),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	command, err := parser.Parse(args)
	if helped {
		return nil
	}
	var unwritten *fs.PathError // by what shows the help
	if errors.As(err, &unwritten) {
		return fmt.Errorf("write the help: %w", unwritten)
	}
	if err != nil {
		return usage(err, args)
	}
	a := &app{cli: &c, lookupEnv: lookupEnv, stdout: stdout, stderr: stderr}
	clusterLogsTo(a.log("warn"))
	return cancelled(ctx, a.traced(ctx, command))
}

// vars are the numbers that help shows.
func vars() map[string]string {
	return map[string]string{
		"listen":       defaults.Listen,
		"wait_timeout": defaults.Timeout.String(), "page": strconv.Itoa(defaults.Page), "max_workers": strconv.Itoa(defaults.MaxWorkers), "rollout_rate": strconv.Itoa(defaults.RolloutRate),
		"demo_timeout": defaults.DemoTimeout.String(), "bench_names": strings.Join(bench.Names(), ", "), "bench_templates": bench.Templates, "demo_size": strconv.Itoa(defaults.DemoSize),
	}
}

// cancelled says of a command that a signal stopped just that, and not which of its steps noticed.
func cancelled(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return errInterrupted
	}
	return err
}
