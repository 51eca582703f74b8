package set

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"berth/provisioner"
)

// digestVersion changes when the same configuration comes to mean something else.
const digestVersion = 1

// digestBytes are enough to tell configurations apart; each row of a resource holds them.
const digestBytes = 16

// Digest returns what tells two configurations of a provisioner apart: type, spec and what it has beside it. Comments, spaces
// and the order of keys do not count; empty if there is no provisioner of this name.
func (s *Set) Digest(name string) string {
	e, ok := s.entries[name]
	if !ok {
		return ""
	}
	spec, err := decode(e.spec)
	if err != nil {
		return ""
	}
	canonical, err := json.Marshal(spec) // sorts keys
	if err != nil {
		return ""
	}
	fingerprint := ""
	if f, ok := e.Provisioner.(provisioner.Fingerprinter); ok {
		fingerprint = f.Fingerprint()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%q\n%q\n%q", digestVersion, e.Type, canonical, fingerprint))
	return hex.EncodeToString(sum[:digestBytes])
}
