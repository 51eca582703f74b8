package kubernetes

import (
	"context"
	"fmt"

	"berth/provisioner"
)

// An Installation tells which installation of Berth this is: an id that no other has which uses the same namespace, and that never
// changes. It has to be the value of a label, for it is how we know our objects. It is asked by the first call that has to know; its
// answer is remembered, its error is not. Safe for concurrent use.
type Installation func(context.Context) (string, error)

// installed finds out which installation this is. Each call of the contract that looks for our objects begins with it.
func (k *Kubernetes) installed(ctx context.Context) error {
	if k.known.Load() != nil {
		return nil
	}
	id, err := k.ask(ctx)
	if err != nil {
		return fmt.Errorf("find out which installation this is: %w", err)
	}
	if id == "" || provisioner.LabelValue(id) != id {
		return fmt.Errorf("find out which installation this is: %q can not be the value of a label", id)
	}
	k.known.Store(&id)
	return nil
}

// installation is which one this is. Where nobody has found out it does not return: nothing would be ours then, which would be taken
// for absence.
func (k *Kubernetes) installation() string {
	id := k.known.Load()
	if id == nil {
		panic("nobody has asked which installation this is")
	}
	return *id
}
