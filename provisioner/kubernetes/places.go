package kubernetes

import (
	"fmt"
	"slices"
	"strconv"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A place is where a template prints: a piece of its own text, or what an action came to.
type place struct {
	line int
	text string // of an action
	from origin
	last finish
	trim int // columns that indent or nindent put before each line
}

// origin says what the text that is printed can come from, the least trusted part of it.
type origin int

const (
	fromConstants origin = iota // the template itself, and sizes
	fromBerth                   // names, ids, the host: text of ours
	fromTenant                  // or not known
)

var origins = map[string]origin{
	"CPU": fromConstants, "MemoryGB": fromConstants, "StorageBytes": fromConstants, "Slots": fromConstants,
	"ProvisionID": fromBerth, "InstanceID": fromBerth, "Names": fromBerth, "Host": fromBerth, "DataDir": fromBerth, "Image": fromBerth,
}

// finish says how what is printed was written at last.
type finish int

const (
	asText finish = iota
	asQuoted
	asJSON
)

var finishes = map[string]finish{
	"quote": asQuoted, "squote": asQuoted,
	"toJson": asJSON, "mustToJson": asJSON, "toRawJson": asJSON, "mustToRawJson": asJSON, "toPrettyJson": asJSON, "mustToPrettyJson": asJSON,
}

// What is put into the tree of a template. Nobody can call them: they are not there while it is parsed.
const (
	outName  = "_out"
	markName = "_mark"
)

// finder walks the tree of a template, notes its places and puts a call before or behind each.
type finder struct {
	f     *file
	flaws []flaw
	root  bool // $ is the data of the template, and not what another one handed over
}

// findPlaces notes where the template prints, and has each place say so when it is run.
func (f *file) findPlaces() []flaw {
	w := &finder{f: f}
	all := f.parsed.Templates()
	slices.SortFunc(all, func(a, b *template.Template) int { return int(a.Root.Pos) - int(b.Root.Pos) })
	for _, t := range all {
		if t.Tree == nil || t.Root == nil {
			continue
		}
		w.root = t.Name() == rootName
		w.list(t.Root, w.root, fromTenant)
	}
	slices.SortFunc(w.flaws, func(a, b flaw) int { return a.line - b.line })
	return w.flaws
}

// list walks a list of nodes. atRoot: the dot is the data; else dot is where it comes from.
func (w *finder) list(l *parse.ListNode, atRoot bool, dot origin) {
	if l == nil {
		return
	}
	var nodes []parse.Node
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			at := w.note(place{line: w.f.lineAt(int(n.Pos))})
			nodes = append(nodes, &parse.ActionNode{NodeType: parse.NodeAction, Pos: n.Pos, Pipe: &parse.PipeNode{
				NodeType: parse.NodePipe, Pos: n.Pos, Cmds: []*parse.CommandNode{call(markName, at, n.Pos)},
			}})
		case *parse.ActionNode:
			w.look(n.Pipe)
			if len(n.Pipe.Decl) == 0 {
				p := place{line: w.f.lineAt(int(n.Pos)), text: n.Pipe.String(), from: w.origin(n.Pipe, atRoot, dot)}
				p.last, p.trim = finishOf(n.Pipe.Cmds)
				n.Pipe.Cmds = append(n.Pipe.Cmds, call(outName, w.note(p), n.Pos))
			}
		case *parse.IfNode:
			w.look(n.Pipe)
			w.list(n.List, atRoot, dot)
			w.list(n.ElseList, atRoot, dot)
		case *parse.WithNode:
			w.look(n.Pipe)
			w.list(n.List, false, w.origin(n.Pipe, atRoot, dot))
			w.list(n.ElseList, atRoot, dot)
		case *parse.RangeNode:
			w.look(n.Pipe)
			w.list(n.List, false, w.origin(n.Pipe, atRoot, dot))
			w.list(n.ElseList, atRoot, dot)
		case *parse.TemplateNode:
			if n.Pipe != nil {
				w.look(n.Pipe)
			}
		}
		nodes = append(nodes, n)
	}
	l.Nodes = nodes
}

func (w *finder) note(p place) int {
	w.f.places = append(w.f.places, p)
	return len(w.f.places) - 1
}

// call is a command that calls a function with a number.
func call(name string, n int, at parse.Pos) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: []parse.Node{
		parse.NewIdentifier(name).SetPos(at),
		&parse.NumberNode{NodeType: parse.NodeNumber, Pos: at, IsInt: true, IsUint: true, IsFloat: true, Int64: int64(n), Uint64: uint64(n), Float64: float64(n), Text: strconv.Itoa(n)},
	}}
}

// look finds the functions that are refused, and what annotations are asked for.
func (w *finder) look(p *parse.PipeNode) {
	var texts []string
	annotations := false
	each(p, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.IdentifierNode:
			if why, no := refused[n.Ident]; no {
				w.flaws = append(w.flaws, flaw{line: w.f.lineAt(int(n.Pos)), problem: fmt.Sprintf("function %q %s", n.Ident, why), remedy: "derive the value from .ProvisionID"})
			}
			w.f.jsonIn = w.f.jsonIn || n.Ident == "fromJson" || n.Ident == "mustFromJson"
		case *parse.StringNode:
			texts = append(texts, n.Text)
		case *parse.FieldNode:
			annotations = annotations || n.Ident[0] == "Annotations"
			if n.Ident[0] == "Annotations" && len(n.Ident) > 1 {
				texts = append(texts, n.Ident[1])
			}
		case *parse.VariableNode:
			annotations = annotations || len(n.Ident) > 1 && n.Ident[1] == "Annotations"
			if len(n.Ident) > 2 && n.Ident[1] == "Annotations" {
				texts = append(texts, n.Ident[2])
			}
		}
	})
	for _, text := range texts {
		if annotations && len(validation.IsQualifiedName(text)) == 0 {
			w.f.literals = append(w.f.literals, text)
		}
	}
}

// each calls do with every node of a pipeline.
func each(n parse.Node, do func(parse.Node)) {
	do(n)
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			each(c, do)
		}
	case *parse.CommandNode:
		for _, a := range n.Args {
			each(a, do)
		}
	case *parse.ChainNode:
		each(n.Node, do)
	}
}

// origin is where what a pipeline comes to can come from.
func (w *finder) origin(p *parse.PipeNode, atRoot bool, dot origin) origin {
	worst := fromConstants
	each(p, func(n parse.Node) {
		from := fromConstants
		switch n := n.(type) {
		case *parse.FieldNode:
			from = dot
			if atRoot {
				from = fieldOrigin(n.Ident[0])
			}
		case *parse.VariableNode:
			from = fromTenant
			if w.root && n.Ident[0] == "$" && len(n.Ident) > 1 {
				from = fieldOrigin(n.Ident[1])
			}
		case *parse.DotNode:
			from = dot
			if atRoot {
				from = fromTenant
			}
		}
		worst = max(worst, from)
	})
	return worst
}

func fieldOrigin(name string) origin {
	if from, ok := origins[name]; ok {
		return from
	}
	return fromTenant
}

// finishOf says how the commands of a pipeline write what it comes to.
func finishOf(cmds []*parse.CommandNode) (last finish, trim int) {
	for _, c := range slices.Backward(cmds) {
		name, ok := c.Args[0].(*parse.IdentifierNode)
		if !ok {
			return asText, trim
		}
		if name.Ident == "indent" || name.Ident == "nindent" {
			if n, ok := c.Args[min(1, len(c.Args)-1)].(*parse.NumberNode); ok {
				trim += int(n.Int64)
			}
			continue
		}
		if name.Ident == "printf" && len(c.Args) > 1 {
			if format, ok := c.Args[1].(*parse.StringNode); ok && format.Text == "%q" {
				return asQuoted, trim
			}
		}
		return finishes[name.Ident], trim
	}
	return asText, trim
}
