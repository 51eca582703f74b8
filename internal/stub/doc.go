// Package stub has runtimes that hold nothing and only say that they are there, to try the worker without real ones.
package stub
