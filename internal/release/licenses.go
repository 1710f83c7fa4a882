package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowed lists the licences of components. GPL code with GCC's exception may be distributed with any program. NVIDIA's
// licence names the two libraries (attachment A) as redistributable.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", gccLicense, nvidiaLicense}

const (
	gccLicense    = "GPL-3.0-or-later WITH GCC-exception-3.1"
	nvidiaLicense = "LicenseRef-NVIDIA-CUDA-EULA"
)

// nvidiaNote names the sections of NVIDIA's licence that permit a release to contain the two libraries.
const nvidiaNote = `libcudart.so.13 and libcupti.so.13 of NVIDIA are in lib/openmanus because libtorch_cpu.so is linked to them. They are
unmodified copies. Their licence permits this in the sections 1.1.1 (3), 1.1.2, 2.2, 2.3 and 2.6, Attachment A, which lists
libcudart.so and libcupti.so. Section 1.1.2 (2) allows only openmanus to access them.
`

// component is a work of others in a release.
type component struct {
	name, version string
	license       string // an SPDX expression
	text          string // the licence and notices
	url           string // package URL
	sha256        string // of the wheel, or ""
}

// components returns the works in a release, in the order of their names.
func (in *inputs) components() ([]component, error) {
	list, err := goComponents(in.program)
	if err != nil {
		return nil, err
	}
	for _, w := range in.wheels {
		c, err := wheelComponent(w)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	gcc, err := gccComponent()
	if err != nil {
		return nil, err
	}
	list = append(list, gcc)
	for _, c := range list {
		for _, l := range strings.Split(c.license, " AND ") {
			if !slices.Contains(allowed, l) {
				return nil, fmt.Errorf("%s %s has the licence %q, which is not allowed in a release (%s)", c.name, c.version, l, strings.Join(allowed, ", "))
			}
		}
	}
	slices.SortFunc(list, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// goComponents returns Go's library and the modules in a Go program.
func goComponents(program string) ([]component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return nil, err
	}
	list := []component{{name: "go", version: strings.TrimPrefix(info.GoVersion, "go"), license: "BSD-3-Clause", text: string(text),
		url: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.Path).Output()
		if err != nil {
			return nil, fmt.Errorf("find module %s: %w", m.Path, err)
		}
		text, err := licenseFiles(strings.TrimSpace(string(dir)))
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Path, err)
		}
		license, err := classify(text)
		if err != nil {
			return nil, fmt.Errorf("module %s %s: %w", m.Path, m.Version, err)
		}
		list = append(list, component{name: m.Path, version: m.Version, license: license, text: text, url: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	return list, nil
}

// licenseFiles returns the texts of the licence files in a folder.
func licenseFiles(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, e := range entries {
		if !licenseName.MatchString(e.Name()) || e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		text.Write(append(b, '\n'))
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("no licence file in %s", dir)
	}
	return text.String(), nil
}

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// marks are sentences that identify licences.
var marks = []struct{ license, text string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "apache license, version 2.0"},
	{"BSD-3-Clause", "redistribution and use in source and binary forms, with or without modification, are permitted provided that"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy of this software"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"GPL", "gnu general public license"},
	{"LGPL", "gnu lesser general public license"},
	{"AGPL", "gnu affero general public license"},
	{"SSPL", "server side public license"},
}

// classify returns the SPDX expression of a licence text.
func classify(text string) (string, error) {
	plain := strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(text), ">", " ")), " ") // > marks quotations
	var found []string
	for _, m := range marks {
		if !strings.Contains(plain, m.text) || slices.Contains(found, m.license) {
			continue
		}
		if m.license == "BSD-3-Clause" && !strings.Contains(plain, "neither the name") && !strings.Contains(plain, "may not be used to endorse") {
			m.license = "BSD-2-Clause"
		}
		found = append(found, m.license)
	}
	if slices.Contains(found, "MPL-2.0") { // MPL's text mentions the licences that it is compatible with
		found = slices.DeleteFunc(found, func(l string) bool { return strings.Contains(l, "GPL") })
	}
	if len(found) == 0 {
		return "", fmt.Errorf("unknown licence text: %.80q", text)
	}
	return strings.Join(found, " AND "), nil
}

// wheelLicenses are the licences of the wheels of third_party/libtorch.lock.
var wheelLicenses = map[string]string{
	"torch": "BSD-3-Clause", "nvidia_cuda_runtime": nvidiaLicense, "nvidia_cuda_cupti": nvidiaLicense,
}

// wheelComponent describes a Python wheel.
func wheelComponent(file string) (component, error) {
	parts := strings.Split(filepath.Base(file), "-")
	if len(parts) < 5 {
		return component{}, fmt.Errorf("%s is not the name of a wheel", file)
	}
	c := component{name: parts[0], version: parts[1], license: wheelLicenses[parts[0]],
		url: "pkg:pypi/" + strings.ReplaceAll(parts[0], "_", "-") + "@" + parts[1]}
	z, err := zip.OpenReader(file)
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	defer z.Close()
	for _, m := range z.File {
		if !strings.Contains(m.Name, ".dist-info/licenses/") || m.FileInfo().IsDir() {
			continue
		}
		r, err := m.Open()
		if err != nil {
			return c, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return c, fmt.Errorf("%s: %s: %w", file, m.Name, err)
		}
		c.text += string(b) + "\n"
	}
	if c.text == "" {
		return c, fmt.Errorf("%s contains no licence", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return c, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return c, err
	}
	c.sha256 = hex.EncodeToString(sum.Sum(nil))
	return c, nil
}

// gccComponent describes the libraries of the compiler that the release bundles.
func gccComponent() (component, error) {
	out, err := exec.Command("g++", "-dumpfullversion").Output()
	if err != nil {
		return component{}, fmt.Errorf("g++ -dumpfullversion: %w", err)
	}
	c := component{name: "gcc-runtime-libraries", version: strings.TrimSpace(string(out)), license: gccLicense}
	c.url = "pkg:generic/gcc@" + c.version
	major, _, _ := strings.Cut(c.version, ".")
	var text bytes.Buffer
	for _, file := range []string{"/usr/share/doc/gcc-" + major + "-base/copyright", "/usr/share/common-licenses/GPL-3"} {
		b, err := os.ReadFile(file)
		if err != nil {
			return c, fmt.Errorf("the licence of libstdc++: %w; build releases on Debian or Ubuntu", err)
		}
		text.Write(append(b, '\n'))
	}
	c.text = text.String()
	return c, nil
}

// licenses writes the licences and the list of components into the tree.
func (in *inputs) licenses(root string) error {
	list, err := in.components()
	if err != nil {
		return err
	}
	var all strings.Builder
	fmt.Fprintf(&all, "openmanus contains the following works of others.\n\n%s\n", nvidiaNote)
	for _, c := range list {
		fmt.Fprintf(&all, "  %s %s: %s\n", c.name, c.version, c.license)
	}
	for _, c := range list {
		fmt.Fprintf(&all, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 100), c.name, c.version, c.license, strings.TrimSpace(c.text))
	}
	if err := writeFile(filepath.Join(root, docDir, "THIRD_PARTY_LICENSES"), []byte(all.String())); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(root, docDir, "LICENSE"), in.license, 0o644); err != nil {
		return err
	}
	spdx, err := in.spdx(list)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(root, docDir, "openmanus.spdx.json"), spdx)
}
