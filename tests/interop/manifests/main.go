// SPDX-License-Identifier: Apache-2.0
// Reads Kubernetes manifests as an API server of today does, by its own types, and strictly: a field that does not exist, is
// given twice or has the wrong type is an error. Prints a line for each object; exits with 1 if one was refused.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"

	crds "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	known := runtime.NewScheme()
	if scheme.AddToScheme(known) != nil || crds.AddToScheme(known) != nil {
		panic("types")
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	refused, taken := 0, 0
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := documents.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				panic(err)
			}
			// Comments alone are no object.
			if object, err := yaml.ToJSON(document); err == nil && string(object) == "null" {
				continue
			}
			_, kind, err := decoder.Decode(document, nil, nil)
			if err != nil {
				refused++
				fmt.Printf("not ok %s: %v\n", path, err)
				continue
			}
			taken++
			fmt.Printf("ok %s: %s\n", path, kind)
		}
	}
	if refused > 0 || taken == 0 {
		os.Exit(1)
	}
}
