package health

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"berth/db"
	"berth/internal/defaults"
)

// metrics are what /metrics shows. Labels are names that the configuration gives and words that the code has, never an id: there are
// few of them however large the fleet is.
type metrics struct {
	registry *prometheus.Registry
	jobs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	fleet    *fleet
}

func newMetrics(version string, worker *atomic.Pointer[Worker], log *slog.Logger) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_jobs_total", Help: "Jobs that this worker ran, by kind and outcome. A run that finds nothing to do is completed.",
		}, []string{"kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_job_duration_seconds", Help: "How long jobs of this worker took, by kind.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 50},
		}, []string{"kind"}),
		fleet: newFleet(worker, log),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_build_info", Help: "What this worker was built from. Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(m.jobs, m.duration, info, newProcess(worker), m.fleet,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("berth_"+name, help, labels, nil)
}

// process is what this process knows by itself.
type process struct {
	worker                *atomic.Pointer[Worker]
	lost, takeOvers, open *prometheus.Desc
}

func newProcess(worker *atomic.Pointer[Worker]) *process {
	return &process{
		worker:    worker,
		lost:      desc("leases_lost_total", "Leases that this worker lost before an outcome was stored."),
		takeOvers: desc("take_overs_total", "Places that this worker took over from one that was lost."),
		open:      desc("breaker_open", "1 where this worker leaves a provisioner alone because it does not answer, else 0.", "provisioner"),
	}
}

// Describe is what every collector has.
func (p *process) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.lost, p.takeOvers, p.open} {
		to <- d
	}
}

// Collect asks the engine. Before it has started there is nothing to tell.
func (p *process) Collect(to chan<- prometheus.Metric) {
	w := p.worker.Load()
	if w == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(p.lost, prometheus.CounterValue, float64(w.Engine.LeasesLost()))
	to <- prometheus.MustNewConstMetric(p.takeOvers, prometheus.CounterValue, float64(w.Engine.TakeOvers()))
	for name, open := range w.Engine.Breakers() {
		value := 0.
		if open {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(p.open, prometheus.GaugeValue, value, name)
	}
}

// fleet is what the database knows of all workers' work. Where it does not answer in time nothing is shown of it, and that it failed.
type fleet struct {
	worker  *atomic.Pointer[Worker]
	figures *cached[db.Figures]

	failed, queueAge, unsettled, unsettledAge, waiting, waitingSlots, slots *prometheus.Desc
}

func newFleet(worker *atomic.Pointer[Worker], log *slog.Logger) *fleet {
	f := &fleet{
		worker:       worker,
		failed:       desc("scrape_error", "1 if the database did not give its figures in time, else 0. What it knows is not shown then."),
		queueAge:     desc("queue_age_seconds", "Age of the oldest job that waits in a queue; 0 where none does.", "queue"),
		unsettled:    desc("unsettled_places", fmt.Sprintf("Places that are not as they were wished. Of those that are on their way, and of those that were given up, %d are looked at.", defaults.FiguresMost), "provisioner"),
		unsettledAge: desc("unsettled_age_seconds", "How long the place that is unsettled longest has been so; 0 where none is.", "provisioner"),
		waiting:      desc("waiting_places", fmt.Sprintf("Places that wait for room in a pool; %d are counted at most.", defaults.FiguresMost), "provisioner"),
		waitingSlots: desc("waiting_slots", "Slots that those lack.", "provisioner"),
		slots:        desc("slots", "Slots of a pool, by state: used, free, or closed: free on a host that takes no new resources.", "provisioner", "state"),
	}
	f.figures = &cached[db.Figures]{timeout: defaults.FiguresTimeout, holdFor: defaults.FiguresFor, ask: func(ctx context.Context) (db.Figures, error) {
		figures, err := db.Measure(ctx, worker.Load().Pool, defaults.FiguresTimeout, defaults.FiguresMost)
		if err != nil {
			log.Debug("the database did not give its figures", slog.Any("error", err))
		}
		return figures, err
	}}
	return f
}

// Describe is what every collector has.
func (f *fleet) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.failed, f.queueAge, f.unsettled, f.unsettledAge, f.waiting, f.waitingSlots, f.slots} {
		to <- d
	}
}

// Collect asks the database, if nobody did lately.
func (f *fleet) Collect(to chan<- prometheus.Metric) {
	if f.worker.Load() == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	figures, err := f.figures.get()
	if err != nil {
		gauge(f.failed, 1)
		return
	}
	gauge(f.failed, 0)
	for queue, age := range figures.QueueAge {
		gauge(f.queueAge, age.Seconds(), queue)
	}
	for name, u := range figures.Unsettled {
		gauge(f.unsettled, float64(u.Places), name)
		gauge(f.unsettledAge, u.Age.Seconds(), name)
	}
	for name, w := range figures.Waiting {
		gauge(f.waiting, float64(w.Places), name)
		gauge(f.waitingSlots, float64(w.Slots), name)
	}
	for name, s := range figures.Slots {
		gauge(f.slots, float64(s.Used), name, "used")
		gauge(f.slots, float64(s.Free), name, "free")
		gauge(f.slots, float64(s.Closed), name, "closed")
	}
}
