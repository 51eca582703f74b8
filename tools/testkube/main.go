// Command testkube builds the Kubernetes control plane that the tests run, if it is not in the cache yet, and prints where it is.
package main

import (
	"context"
	"fmt"
	"os"

	"berth/internal/kubebuild"
)

func main() {
	path, err := kubebuild.Program(context.Background(), func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "testkube: "+format+"\n", args...)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "testkube:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
