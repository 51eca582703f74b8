package lifecycle_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
	"berth/provisioner"
)

// labelForm is what Kubernetes takes as the value of a label.
var labelForm = regexp.MustCompile(`\A(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\z`)

// TestNamesOfCustomers creates organizations with the names that customers have. Each is refused at once, with the reason, or
// comes to what backends make as a text of which a label is made; nothing is found out on the way.
func TestNamesOfCustomers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, name string
		refused      bool
	}{
		"plain":           {"letters", "acme", false},
		"first":           {"neither letter nor digit at the start, and a character that no name has", "_@example.test", true},
		"dash first":      {"neither letter nor digit at the start", "-dash-first", true},
		"dash last":       {"a name, but no label", "dash-last-", false},
		"longest":         {"as long as a label may be", strings.Repeat("a", 63), false},
		"too long":        {"one more", strings.Repeat("b", 64), true},
		"not ASCII":       {"characters that no name has", "Ünïcode & Co", true},
		"two words":       {"a space", "two words", true},
		"slash":           {"it parts organization and project", "a/b", true},
		"empty":           {"no name at all", "", true},
		"too long, ended": {"64 characters, of which the last fits", strings.Repeat("c", 62) + "-x", true},
		"quotes":          {"what ends a text elsewhere", `O'Brien "quoted"`, true},
		"no letter":       {"characters that no name has", "日本支社", true},
		"dot last":        {"a name, but no label", "acme.", false},
		"upper case":      {"as it is written", "ACME", false},
		"mixed case":      {"as it is written", "aCmE", false},
	}
	ids := map[uuid.UUID]bool{}
	for name, tt := range tests {
		b := bare(t) // names that differ by case alone are one
		b.register(t, staticA, configured(staticA, "runtime"))
		var project lifecycle.Project
		err := b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			o, err := b.client.CreateOrganization(ctx, tx, tt.name, "")
			if err != nil {
				return err
			}
			project, err = b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "web"})
			return err
		})
		if tt.refused {
			require.ErrorIs(t, err, lifecycle.ErrInvalid, "%s: %s", name, tt.reason)
			require.ErrorContains(t, err, "organization \"")
			require.ErrorContains(t, err, "use 1 to 63 of")
			require.Zero(t, b.count(t, "SELECT count(*) FROM berth.organizations"))
			continue
		}
		require.NoError(t, err, "%s: %s", name, tt.reason)
		id := uuid.New()
		b.do(t, func(ctx context.Context, tx pgx.Tx) error {
			return b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: id, ProjectID: project.ID})
		})
		var raw json.RawMessage
		var resource uuid.UUID
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT id, args FROM berth.provisioner_resources").Scan(&resource, &raw))
		args, err := provisioner.Decode[provisioner.RuntimeArgs](raw)
		require.NoError(t, err)
		require.Equal(t, tt.name, args.Annotations["organization"])
		label := provisioner.LabelValue(args.Annotations["organization"])
		require.Regexp(t, labelForm, label, tt.reason)
		require.LessOrEqual(t, len(label), 63)
		require.False(t, ids[resource], "what tells things apart is the id")
		ids[resource] = true
	}
}
