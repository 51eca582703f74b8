// Package set reads the configured set of provisioners: named entries of a type and a spec, in JSON with comments and trailing
// commas, and the name of the default one.
//
//	{
//	  "static-eu": {
//	    "type": "static",
//	    "spec": {"runtimes": [{"host": "http://10.0.0.1:8081", "slots": 50}]} // as the type wants it
//	  },
//	}
//
// [Parse] reports everything that is wrong in one go, each fault with its key path and line. It touches no network.
package set
