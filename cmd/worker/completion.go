package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completion struct {
	Shell string `arg:"" name:"SHELL" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run writes a script that has the shell complete commands, flags and their values. It asks nothing of this program, or of a database,
// when it runs.
func (c *completion) Run(_ context.Context, a *app) error {
	words, err := completions()
	if err != nil {
		return err
	}
	script := map[string]func([]completed) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell](words)
	if _, err := io.WriteString(a.stdout, script); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	return nil
}

// completed is what can follow a command: the path to it is empty for the program itself.
type completed struct {
	path     string
	commands []offer // below it
	flags    []offer
	argument []string // what its first argument can be, where that is known
}

// offer is one word that can stand there.
type offer struct {
	name, short, help string
	value             bool     // a value follows
	values            []string // which ones, where that is known
}

// completions reads them from the model of the command line.
func completions() ([]completed, error) {
	parser, err := kong.New(&cli{}, kong.Vars(vars()))
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	var all []completed
	var visit func(n *kong.Node, path string, inherited []offer)
	visit = func(n *kong.Node, path string, inherited []offer) {
		at := completed{path: path, flags: slices.Clone(inherited)}
		for _, f := range n.Flags {
			if f.Hidden {
				continue
			}
			o := offer{name: "--" + f.Name, help: f.Help, value: !f.IsBool() && !f.IsCounter(), values: enum(f.Value)}
			if f.Short != 0 {
				o.short = "-" + string(f.Short)
			}
			at.flags = append(at.flags, o)
		}
		if len(n.Positional) > 0 {
			at.argument = enum(n.Positional[0])
		}
		for _, child := range n.Children {
			at.commands = append(at.commands, offer{name: child.Name, help: child.Help})
		}
		all = append(all, at)
		for _, child := range n.Children {
			visit(child, strings.TrimSpace(path+" "+child.Name), at.flags)
		}
	}
	visit(parser.Model.Node, "", nil)
	return all, nil
}

func enum(v *kong.Value) []string {
	return slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })
}

// names lists the words, short ones too.
func names(offers []offer) (out []string) {
	for _, o := range offers {
		out = append(out, o.name)
		if o.short != "" {
			out = append(out, o.short)
		}
	}
	return out
}

// valued lists the flags of all commands behind which a value stands, each once.
func valued(all []completed) (out []string) {
	for _, c := range all {
		for _, f := range c.flags {
			if f.value {
				out = append(out, names([]offer{f})...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// paths lists all commands.
func paths(all []completed) (out []string) {
	for _, c := range all[1:] {
		out = append(out, c.path)
	}
	return out
}

// steps lists all commands as a script that reads word by word comes to them: what was read, a space, the next word.
func steps(all []completed) (out []string) {
	for _, p := range paths(all) {
		if !strings.Contains(p, " ") {
			p = " " + p
		}
		out = append(out, `"`+p+`"`)
	}
	return out
}

func bashScript(all []completed) string {
	var b strings.Builder
	b.WriteString(`# Completion of worker for bash. Put it where bash finds it, or: source <(worker completion bash)
_worker() {
	local cur="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at="" commands="" flags="" values="" i
	if [[ $cur == "=" ]]; then
		cur=""
	elif [[ $before == "=" ]]; then
		before="${COMP_WORDS[COMP_CWORD-2]}"
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "${COMP_WORDS[i]}" in
`)
	fmt.Fprintf(&b, "\t\t%s)\n", strings.Join(valued(all), " | "))
	b.WriteString(`			((i++))
			[[ ${COMP_WORDS[i]} == "=" ]] && ((i++))
			continue
			;;
		esac
		case "$at ${COMP_WORDS[i]}" in
`)
	fmt.Fprintf(&b, "\t\t%s)\n", strings.Join(steps(all), " | "))
	b.WriteString(`			at="${at:+$at }${COMP_WORDS[i]}"
			;;
		esac
	done
	case "$at" in
`)
	for _, c := range all {
		fmt.Fprintf(&b, "\t%q)\n\t\tcommands=%q flags=%q\n", c.path, strings.Join(append(names(c.commands), c.argument...), " "), strings.Join(names(c.flags), " "))
		b.WriteString("\t\tcase \"$before\" in\n")
		for _, f := range c.flags {
			if f.value {
				fmt.Fprintf(&b, "\t\t%s) values=%q ;;\n", strings.Join(names([]offer{f}), " | "), strings.Join(append([]string{"="}, f.values...), " "))
			}
		}
		b.WriteString("\t\tesac\n\t\t;;\n")
	}
	b.WriteString(`	esac
	if [[ -n $values ]]; then
		COMPREPLY=($(compgen -W "${values#=}" -- "$cur"))
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$flags" -- "$cur"))
	else
		COMPREPLY=($(compgen -W "$commands" -- "$cur"))
	fi
}
complete -F _worker worker
`)
	return b.String()
}

func zshScript(all []completed) string {
	var b strings.Builder
	b.WriteString(`#compdef worker
# Completion of worker for zsh. Put it as _worker where $fpath leads, or: source <(worker completion zsh)
_worker() {
	local at="" before="${words[CURRENT-1]}" cur="${words[CURRENT]}" i
	local -a offers flags values
	local valued=""
	for ((i = 2; i < CURRENT; i++)); do
		case "${words[i]}" in
`)
	fmt.Fprintf(&b, "\t\t(%s)\n", strings.Join(valued(all), "|"))
	b.WriteString(`			((i++))
			continue
			;;
		esac
		case "$at ${words[i]}" in
`)
	fmt.Fprintf(&b, "\t\t(%s)\n", strings.Join(steps(all), "|"))
	b.WriteString(`			at="${at:+$at }${words[i]}"
			;;
		esac
	done
	if [[ $cur == --*=* ]]; then
		before="${cur%%=*}"
		compset -P '*='
	fi
	case "$at" in
`)
	for _, c := range all {
		fmt.Fprintf(&b, "\t(%q)\n\t\toffers=(%s)\n\t\tflags=(%s)\n\t\tcase \"$before\" in\n", c.path, zshOffers(c.commands, c.argument), zshOffers(c.flags, nil))
		for _, f := range c.flags {
			if f.value {
				fmt.Fprintf(&b, "\t\t(%s) valued=yes values=(%s) ;;\n", strings.Join(names([]offer{f}), "|"), strings.Join(f.values, " "))
			}
		}
		b.WriteString("\t\tesac\n\t\t;;\n")
	}
	b.WriteString(`	esac
	if [[ -n $valued ]]; then
		compadd -- $values
	elif [[ $cur == -* ]]; then
		_describe flag flags
	else
		_describe command offers
	fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
	_worker "$@"
else
	compdef _worker worker
fi
`)
	return b.String()
}

// zshOffers are words with what they mean.
func zshOffers(offers []offer, plain []string) string {
	var out []string
	for _, o := range offers {
		for _, name := range names([]offer{o}) {
			out = append(out, "'"+strings.ReplaceAll(name+":"+o.help, "'", `'\''`)+"'")
		}
	}
	return strings.Join(append(out, plain...), " ")
}

func fishScript(all []completed) string {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	var b strings.Builder
	var quoted []string
	for _, p := range paths(all) {
		quoted = append(quoted, quote(p))
	}
	fmt.Fprintf(&b, `# Completion of worker for fish. Put it as worker.fish into ~/.config/fish/completions, or: worker completion fish | source
function __worker_at
	set -l at ''
	set -l skip 0
	for word in (commandline -opc)[2..-1]
		if test $skip = 1
			set skip 0
		else if contains -- $word %s
			set skip 1
		else
			set -l next (string trim -- "$at $word")
			contains -- $next %s; and set at $next
		end
	end
	test "$at" = "$argv[1]"
end
complete -c worker -f
`, strings.Join(valued(all), " "), strings.Join(quoted, " "))
	for _, c := range all {
		at := quote("__worker_at " + quote(c.path))
		for _, o := range c.commands {
			fmt.Fprintf(&b, "complete -c worker -n %s -a %s -d %s\n", at, o.name, quote(o.help))
		}
		if len(c.argument) > 0 {
			fmt.Fprintf(&b, "complete -c worker -n %s -a %s\n", at, quote(strings.Join(c.argument, " ")))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c worker -n %s -l %s", at, strings.TrimPrefix(f.name, "--"))
			if f.short != "" {
				fmt.Fprintf(&b, " -s %s", strings.TrimPrefix(f.short, "-"))
			}
			if f.value {
				b.WriteString(" -x")
			}
			if len(f.values) > 0 {
				b.WriteString(" -a " + quote(strings.Join(f.values, " ")))
			}
			b.WriteString(" -d " + quote(f.help) + "\n")
		}
	}
	return b.String()
}
