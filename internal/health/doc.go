// Package health is what a worker tells over HTTP of how it is: /livez, /readyz and /metrics. Nothing of it is asked for a password,
// so nothing of it is secret: names of provisioners and kinds of jobs, numbers, and why it is not ready. It decides nothing, and
// however often it is asked, the database is asked once in a while.
package health
