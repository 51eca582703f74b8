// Package trials holds no code, only tests: whole workers as processes of their own, killed, stopped and starved while they work,
// and afterwards a look whether anything was lost, doubled or left over.
//
// A worker is the test binary itself, started again with an order in its environment (worker_test.go). It has everything that
// `worker run` has, and a tap on its connections and its backends (tap_test.go), so that it can be held at any step: before a
// statement, after it was sent, after it was answered, before a COMMIT, inside a call. The test then kills it there, or stops it
// and wakes it when the world has moved on. What it sends to a cluster passes a proxy within it (forward_test.go), and is held there.
//
// BERTH_SOAK=n makes the trials n times as long; they stay the same trials.
package trials
