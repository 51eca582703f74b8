// Package defaults holds every default number of Berth in one place. docs/architecture.md shows the same table; a test
// compares the two.
package defaults

import "time"

// Leases and liveness. Alive has to be several heartbeats; Lease is the hard end of a claim and bounds one call.
const (
	Heartbeat   = 2 * time.Second  // how often a worker says that it lives
	Alive       = 6 * time.Second  // a worker is dead this long after its last heartbeat
	AliveMargin = time.Second      // and stops acting so long before that
	Lease       = 60 * time.Second // hard end of a claim
	CallTimeout = 20 * time.Second // of one call to a backend
	LeaseMargin = 5 * time.Second  // a worker stops acting on a lease this long before its end
	Seen        = 30 * time.Second // how often a live worker's provisioners are marked as seen
	MissingFor  = 10 * time.Minute // a provisioner that no live worker has had for so long is missing
	Silence     = 30 * time.Second // a configuration that no live worker has announced for so long is succeeded
	ActingLook  = 2 * time.Second  // how often a worker looks which configuration of a provisioner acts
	Shout       = time.Hour        // how often a worker warns of provisioners that are missing
	LostSpread  = 30 * time.Second // what was lost twice is tried again within this time
	MaxLost     = 3                // workers lost in a row before a place is set aside
	LostRetry   = 10 * time.Minute // how often a place that was set aside is tried
)

// Dispatching and retrying.
const (
	Dispatch      = time.Second           // how often each process looks for what is due
	DispatchBatch = 500                   // places woken at a time
	Grace         = 5 * time.Second       // a fresh job has this long before the dispatcher adds one
	GraceEach     = 2 * time.Millisecond  // more for each deployment that was changed together
	MaxGrace      = 10 * time.Minute      // what the dispatcher's patience grows to in a backlog
	OverdueAll    = time.Minute           // so often all deadlines that passed are looked at, and each second the late ones
	Look          = time.Second           // until a pending place is looked at again
	LookOverdue   = 10 * time.Second      // and once it is past its deadline
	LookMax       = time.Hour             // longest that a backend may ask not to be looked at
	BackoffBase   = time.Second           // first pause after a failure; doubled each time
	BackoffMax    = 5 * time.Minute       // longest pause after a failure
	FullWait      = time.Minute           // a place that waits for room looks by itself this often
	BreakerAfter  = 5                     // calls in a row that a backend as a whole did not answer, and it is left alone but for one try at a time
	UnavailWait   = 2 * time.Second       // first pause after a backend as a whole did not answer
	UnavailMax    = time.Minute           // and the longest
	StrandRetry   = time.Minute           // a place whose provisioner is missing is looked at this often
	RolloutRate   = 10                    // resources a second of a provisioner that a changed configuration is brought to
	WatchPause    = time.Second           // before a watch that ended early is begun again
	WakeRetry     = 50 * time.Millisecond // before what changed is woken that somebody had locked
	Timeout       = 5 * time.Minute       // how long a resource may be on its way before that is an error
)

// Storing outcomes.
const (
	Committers   = 1                      // goroutines that store outcomes in groups
	CommitGroup  = 64                     // outcomes stored in one transaction at most
	CommitTries  = 3                      // tries before an outcome is parked off its job's slot
	CommitPause  = 50 * time.Millisecond  // between those tries
	ParkPause    = 500 * time.Millisecond // between tries to store a parked outcome
	HeldTries    = 4                      // a run asks so often again for a place that is held
	HeldPause    = 20 * time.Millisecond  // first pause between those; doubled each time
	HeldAtOnce   = 10                     // runs of a process that may ask again at once
	MaxMessage   = 4096                   // bytes of a stored message
	MaxNotes     = 1 << 20                // bytes of a stored state or config
	CommitBudget = 20 * time.Second       // of one transaction that stores outcomes
)

// Connections and sessions.
const (
	EnginePool         = 10                     // connections of the engine and the backends in each process
	QueuePool          = 8                      // connections of River in each process
	LockTimeout        = 500 * time.Millisecond // of a worker's transactions: below deadlock_timeout, so that admin is never the victim
	IdleInTransaction  = 5 * time.Second        // a session that stops inside a transaction is ended by the server
	ClockSkew          = 2 * time.Second        // a worker whose clock is further off the database's than this does not start
	ConnectTimeout     = 5 * time.Second        // of connecting, and of small statements that end things
	ShutdownSoft       = 15 * time.Second       // running steps may finish in this time
	ShutdownHard       = 5 * time.Second        // then they are cancelled, and get this long to stop
	MaxWorkers         = 100                    // jobs at once in each provisioner's queue
	BackgroundShare    = 4                      // for so many of those one job that nobody waits for, in a queue of its own
	FetchCooldown      = 10 * time.Millisecond  // of River, on the side of the workers
	NotifyCooldown     = time.Millisecond       // of River, on the side of who inserts: what is inserted so soon after another job is told to nobody
	FetchPoll          = time.Second            // of River, when no notification came
	JobTimeout         = 50 * time.Second       // well above CallTimeout
	RescueAfter        = time.Minute            // River tidies jobs of killed workers after this; nothing rests on it
	JobMaxAttempts     = 25                     // of a job; a run that found its end completes it whatever came of it
	PriorityIntent     = 1                      // of the job of a change of intent
	PriorityBackground = 2                      // of a wake-up that nobody waits for
)

// Retention.
const (
	EventsKept    = 90 * 24 * time.Hour  // events of deployments; DeploymentDeleted is kept for ever
	DeletedKept   = 365 * 24 * time.Hour // the proof that a resource was ours and is gone
	JobsKept      = 24 * time.Hour       // finished jobs
	DiscardedKept = 7 * 24 * time.Hour   // jobs that failed too often
	Prune         = time.Minute          // how often each process looks for what is older
	PruneBatch    = 1000                 // rows deleted in one transaction at most
)

// Static pools.
const (
	PingTimeout  = 3 * time.Second       // of GET <host>/v1/ping
	PingFailures = 3                     // in a row, and the host takes no new resources
	ProbeEvery   = 5 * time.Second       // how often a closed host is asked whether it answers again
	PingIdle     = 30 * time.Second      // a connection to a runtime is kept so long for the next ping
	PingsAtOnce  = 32                    // hosts of a pool that are asked at one time
	AssignEvery  = time.Second           // how often free room is matched to those who wait, if nothing else did
	TakeGroup    = 64                    // callers of one process whose slots are taken in one transaction at most
	TakeTries    = 4                     // of a statement about slots that lost a race for a lock
	TakePause    = 10 * time.Millisecond // first pause between those; doubled each time
)

// Health, metrics and traces.
const (
	Listen         = "127.0.0.1:8080" // where run answers, if not told otherwise
	ReadyTimeout   = 2 * time.Second  // of what /readyz asks the database
	ReadyFor       = time.Second      // an answer of /readyz holds so long
	FiguresTimeout = 2 * time.Second  // of what /metrics asks the database
	FiguresFor     = 5 * time.Second  // and its answer holds so long
	FiguresMost    = 10000            // places of a kind that it reads at most
	HeaderTimeout  = 5 * time.Second  // of reading a request's header
	AnswerTimeout  = 10 * time.Second // of reading a request, and of writing the answer
	IdleTimeout    = time.Minute      // a connection without a request is kept so long
	ProbeTimeout   = 5 * time.Second  // of worker healthcheck
	TraceFlush     = 3 * time.Second  // what was traced last gets so long to be sent when a process ends
)

// The command line.
const (
	WaitPoll    = 200 * time.Millisecond // how often a command that waits looks
	Page        = 100                    // rows of a listing
	MaxPage     = 1000                   // and at most
	TxTries     = 5                      // of a command's transaction, where the database lets another one go first
	DemoPoll    = 50 * time.Millisecond  // how often dev looks until all run
	DemoFollow  = 500 * time.Millisecond // and afterwards
	DemoTimeout = 2 * time.Minute        // for all to run, with --once
	DemoSize    = 5                      // deployments of dev
	DemoMost    = 1000                   // deployments of dev at most
)

// A cluster, where its spec does not say otherwise.
const (
	KubernetesQPS     = 50               // requests a second of one provisioner in one worker
	KubernetesBurst   = 100              // and so many at once
	KubernetesTimeout = 10 * time.Second // of one request to a cluster

	KubernetesRounds = 3         // so often a field that another writer changes is changed back, before it is left to that one
	KubernetesTruce  = time.Hour // after which the rounds begin anew

	KubernetesSecondLook = 2 * time.Second // after an edit by hand was seen: one that is there still is repaired

	KubernetesBinding = 30 * time.Second       // in which a new disk is bound, and a pod that waits for it is no fault
	KubernetesLinger  = 250 * time.Millisecond // that a call waits for what it made to be ready

	KubernetesSilence  = 3 * time.Minute        // a watch that says nothing for so long is made anew: a cluster says something each minute
	KubernetesRetry    = 200 * time.Millisecond // before a watch that failed is tried again, growing
	KubernetesRetryMax = 15 * time.Second       // to this
)
