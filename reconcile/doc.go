// Package reconcile is the engine: it claims a place, calls its backend, and commits what came of it.
//
//	job ─▶ claim ──▶ call the backend ──▶ verdict ──▶ commit ──▶ job done
//	        │ lease, fence   no transaction    │          place, state of the deployment, events and
//	        ▼                                  ▼          follow-up jobs in one transaction, under the fence
//	   nothing to do: done               parked while someone holds the deployment
//
// What is authoritative is the row of the place. A job is a wake-up; a lease is good while its worker is alive and its hard end
// has not passed; every write of a run names its fence. The [Engine] also runs a dispatcher, which each second wakes what is due
// and held by nobody alive: it covers killed workers and lost, cancelled and deleted jobs alike.
//
// Workers may have different configurations of a provisioner. One of them acts: a claim needs it, and who waits does nothing there.
//
// The engine decides nothing about deployments. [lifecycle.Client.Settle] derives their state inside the commit.
package reconcile
