// Package gatewayapi is the conformance suite of Gateway API as a program. Its version is in go.mod.
package gatewayapi

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}
