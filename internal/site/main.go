// Command site writes the documentation as a website of static pages, which need no server and no network:
//
//	site --root CHECKOUT --out FOLDER
//
// The pages are docs/*.md, README.md and CONTRIBUTING.md. docs/index.md is the first page, and its lists are the menu.
// A relative link without a target is an error.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "folder of the checkout")
	out := flag.String("out", "build/docs", "folder of the pages; it is replaced")
	flag.Parse()
	n, err := write(*root, *out)
	if err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages: open %s/index.html\n", n, *out)
}
