package kubernetes

import (
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// lineOfPath is the line of the output on which a path stands, or the longest part of it that is there; 0 if it can not be found.
func lineOfPath(text, path string) int {
	var root yaml.Node
	d := yaml.NewDecoder(strings.NewReader(text))
	for root.Kind == 0 || len(root.Content) == 1 && root.Content[0].Tag == "!!null" {
		root = yaml.Node{}
		if err := d.Decode(&root); err != nil {
			return 0
		}
	}
	n, line := root.Content[0], root.Content[0].Line
	for path != "" {
		for n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		if n.Kind == yaml.SequenceNode && path[0] == '[' {
			end := strings.IndexByte(path, ']')
			i, err := strconv.Atoi(path[1:max(end, 1)])
			if err != nil || i < 0 || i >= len(n.Content) {
				return line
			}
			next, line = n.Content[i], n.Content[i].Line
			path = strings.TrimPrefix(path[end+1:], ".")
		}
		if n.Kind == yaml.MappingNode {
			// The longest key that fits: a key may hold dots.
			rest, longest := "", -1
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := n.Content[i].Value
				after, ok := strings.CutPrefix(path, key)
				if ok && len(key) > longest && (after == "" || after[0] == '.' || after[0] == '[') {
					next, rest, longest = n.Content[i+1], strings.TrimPrefix(after, "."), len(key)
					line = n.Content[i].Line
				}
			}
			path = rest
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}
