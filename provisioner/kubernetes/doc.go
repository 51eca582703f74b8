// Package kubernetes makes resources of type runtime of objects in a namespace of a cluster, from templates that an operator wrote.
//
// One part of it needs no cluster: it reads the spec and the templates, finds everything that is wrong with them, and renders the
// objects that a resource is to consist of.
//
//	spec.go       the spec, decoded strictly; files.go its templates
//	template.go   a template: parsed, its printing places found (places.go), run (run.go)
//	data.go       what a template sees; image.go the image and its tag
//	document.go   what came out is one YAML document; tree.go reads it
//	fill.go       the values are put where the template printed them
//	object.go     an object; strict.go checks it against its kind; labels.go marks it as ours
//	render.go     all of it, in the order in which the objects are to be applied
//	check.go      all of it with sample data; compare.go finds what changes and can not
//
// The other part makes it so:
//
//	kubernetes.go the provisioner; client.go the cluster, errors.go what its errors mean, served.go which kinds it has
//	desired.go    objects as they are to be, and the anchor that owns them; live.go what there is
//	notes.go      what is noted between calls, and how late writes are kept from doing harm
//	reconcile.go  what is missing, differs or is too much; write.go how it is written; volumes.go what is special about disks
//	remove.go     hibernation and deletion
//	ready.go      ready by the meaning of each kind; why.go the cause where it is not; quota.go, ping.go
//	observe.go, list.go, plan.go, capacity.go   what is told and changes nothing
//
// # Text of a tenant is never read as YAML
//
// Names of organizations and projects, annotations, the environment and the version come from people whom the operator of the cluster
// does not trust. So where a template prints text, a token of letters and digits is printed in its place. What came out is parsed, and
// only then each token is replaced, inside the scalar in which it stands. Whatever the text holds, be it quotes, line breaks, three
// dashes or braces, it ends up in that scalar, unchanged, and nowhere else: kinds, keys and the number of documents are those of the
// template. A template needs no quoting for it, and may quote: what quote, squote, toJson or printf "%q" print last is decoded again.
// Numbers and what is made of constants or sizes alone is printed as it is.
//
// For a template that relies on printing YAML out of text, that is another result than a plain template engine gives. The check at
// start renders both ways with harmless values, and what differs is a fault.
//
// A template decides by such text if its author wants it to: in a condition, as the key of a lookup, as what is ranged over. In keys of
// objects the text may stand below annotations, labels, data and stringData alone.
package kubernetes
