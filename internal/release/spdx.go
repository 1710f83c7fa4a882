package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The parts of an SPDX 2.3 document that a release uses (ISO/IEC 5962, JSON form).
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Licenses      []spdxLicense      `json:"hasExtractedLicensingInfos"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		Name       string         `json:"name"`
		ID         string         `json:"SPDXID"`
		Version    string         `json:"versionInfo"`
		Download   string         `json:"downloadLocation"`
		Analyzed   bool           `json:"filesAnalyzed"`
		Concluded  string         `json:"licenseConcluded"`
		Declared   string         `json:"licenseDeclared"`
		Copyright  string         `json:"copyrightText"`
		Checksums  []spdxChecksum `json:"checksums,omitempty"`
		References []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxLicense struct {
		ID   string `json:"licenseId"`
		Name string `json:"name"`
		Text string `json:"extractedText"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

var notID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdx returns the list of components as an SPDX document.
func (in *inputs) spdx(list []component) ([]byte, error) {
	const document, program = "SPDXRef-DOCUMENT", "SPDXRef-openmanus"
	none := "NOASSERTION"
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: document, Name: in.name(),
		Creation: spdxCreation{Created: in.time.Format(time.RFC3339), Creators: []string{"Tool: openmanus-release"}},
		Packages: []spdxPackage{{Name: "openmanus", ID: program, Version: in.version, Download: none,
			Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: none}},
		Relationships: []spdxRelationship{{document, "DESCRIBES", program}},
	}
	for _, c := range list {
		p := spdxPackage{
			Name: c.name, ID: "SPDXRef-" + notID.ReplaceAllString(c.name, "-"), Version: c.version, Download: none,
			Concluded: c.license, Declared: c.license, Copyright: none,
			References: []spdxRef{{"PACKAGE-MANAGER", "purl", c.url}},
		}
		if c.sha256 != "" {
			p.Checksums = []spdxChecksum{{"SHA256", c.sha256}}
		}
		if c.license == nvidiaLicense && len(d.Licenses) == 0 {
			d.Licenses = []spdxLicense{{nvidiaLicense, "NVIDIA CUDA Toolkit End User License Agreement", strings.TrimSpace(c.text)}}
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, spdxRelationship{program, "CONTAINS", p.ID})
	}
	// The namespace must be unique for each content.
	b, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	d.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/%s-%x", d.Name, sha256.Sum256(b))
	b, err = json.MarshalIndent(d, "", "  ")
	return append(b, '\n'), err
}
