// Command seemalloc starts programs on the seemalloc allocator and inspects them while they run.
package main

import (
	"os"

	"seemalloc/tool/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
