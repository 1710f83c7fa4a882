package main

import (
	"debug/elf"
	"fmt"
	"strconv"
	"strings"
)

// checkGlibc returns an error if an ELF file needs a newer glibc than limit, as "2.34".
func checkGlibc(file, limit string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range symbols {
		if v, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && newer(v, limit) {
			return fmt.Errorf("%s needs %s of glibc %s, but a release promises to run on %s: build it on a system with glibc %s to 2.36",
				file, s.Name, v, limit, limit)
		}
	}
	return nil
}

// newer reports whether version a, as "2.34", is newer than b.
func newer(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if x, y := number(as, i), number(bs, i); x != y {
			return x > y
		}
	}
	return false
}

// number returns the i-th part of a version, or 0.
func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil { // not a number, as in GLIBC_PRIVATE: newer than every number
		return 1 << 30
	}
	return n
}

// checkStatic returns an error if an executable needs a dynamic linker.
func checkStatic(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not statically linked; build it with CGO_ENABLED=0", file)
		}
	}
	return nil
}
