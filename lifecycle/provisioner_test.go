package lifecycle_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/internal/defaults"
	"berth/lifecycle"
)

func (b *bundle) known(t testing.TB) map[string]lifecycle.Known {
	t.Helper()
	all, err := b.client.Provisioners(t.Context(), b.pool)
	require.NoError(t, err)
	out := map[string]lifecycle.Known{}
	for _, k := range all {
		out[k.Name] = k
	}
	return out
}

func TestRegister(t *testing.T) {
	t.Parallel()
	b := bare(t)
	quick := configured("b", "runtime")
	quick.Info.Timeout = time.Minute
	compare := func(reason string, want map[string]lifecycle.Known) {
		t.Helper()
		require.Empty(t, gocmp.Diff(want, b.known(t), cmpopts.IgnoreFields(lifecycle.Known{}, "SeenAt", "Since")), reason)
	}
	b.register(t, "")
	compare("nothing configured, nothing known", map[string]lifecycle.Known{})

	b.register(t, "", configured("a", "runtime", "database"), quick)
	a := lifecycle.Known{Name: "a", Type: "scripted", Supports: []string{"runtime", "database"}, Timeout: defaults.Timeout}
	bb := lifecycle.Known{Name: "b", Type: "scripted", Supports: []string{"runtime"}, Timeout: time.Minute}
	compare("an admin may enqueue before the first worker starts; no default was named", map[string]lifecycle.Known{"a": a, "b": bb})
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.provisioners WHERE name = 'b' AND timeout = '1 minute'"))

	b.register(t, "b", quick)
	bb.Default = true
	compare("there was no default", map[string]lifecycle.Known{"a": a, "b": bb})

	b.exec(t, "UPDATE berth.provisioners SET seen_at = now() - interval '11 minutes'")
	b.register(t, "a", configured("a", "database"), configured("b", "database"))
	a.Missing, bb.Missing = true, true
	compare("what is known is left as it is: types, default, and when it was seen", map[string]lifecycle.Known{"a": a, "b": bb})

	describe := func(digest string) {
		t.Helper()
		require.NoError(t, b.client.DescribeProvisioner(t.Context(), b.pool, "a", digest, configured("a", "database").Info))
	}
	describe("of another configuration")
	compare("only the one that acts says what is so", map[string]lifecycle.Known{"a": a, "b": bb})
	describe("")
	a.Supports = []string{"database"}
	compare("a worker knows better what it works", map[string]lifecycle.Known{"a": a, "b": bb})

	b.exec(t, "UPDATE berth.provisioners SET seen_at = now() - interval '9 minutes'")
	a.Missing, bb.Missing = false, false
	compare("missing is ten minutes", map[string]lifecycle.Known{"a": a, "b": bb})

	before := b.everything(t)
	err := b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return b.client.RegisterProvisioners(ctx, tx, []lifecycle.Configured{configured("c", "runtime"), {Name: "a", Type: "static", Info: quick.Info}}, "c")
	})
	require.ErrorIs(t, err, lifecycle.ErrConflict)
	require.EqualError(t, err, `provisioner "a": it is of type "scripted" with 0 resources and configured as "static": give the new one another name, or restore its type`)
	require.Equal(t, before, b.everything(t))
}

// TestManyRegisterAtOnce starts processes with different sets and defaults at the same moment, on an empty table.
func TestManyRegisterAtOnce(t *testing.T) {
	t.Parallel()
	b := bare(t)
	b.wide(t, 8)
	names := []string{"a", "b", "c", "d"}
	var all sync.WaitGroup
	errs := make(chan error, 64)
	for i := range 64 {
		set := []lifecycle.Configured{configured(names[i%4], "runtime"), configured(names[(i+1+i/4%3)%4], "runtime", "database")}
		all.Go(func() {
			errs <- b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				return b.client.RegisterProvisioners(ctx, tx, set, set[i%2].Name)
			})
		})
	}
	all.Wait()
	for range 64 {
		require.NoError(t, <-errs)
	}
	require.Len(t, b.known(t), 4)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.provisioners WHERE is_default"))
}

// TestTypesThatDisagreeAtOnce starts two processes that have one name with different types: one of them is refused.
func TestTypesThatDisagreeAtOnce(t *testing.T) {
	t.Parallel()
	b := bare(t)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	require.NoError(t, b.client.RegisterProvisioners(t.Context(), tx, []lifecycle.Configured{configured("a", "runtime")}, "a"))
	second := make(chan error, 1)
	go func() {
		second <- b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return b.client.RegisterProvisioners(ctx, tx, []lifecycle.Configured{{Name: "a", Type: "other", Info: configured("a", "runtime").Info}}, "a")
		})
	}()
	b.waits(t, "pg_advisory_xact_lock")
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-second, lifecycle.ErrConflict)
}

// TestWhichProvisioner is the order in which the provisioner of a new resource is chosen.
func TestWhichProvisioner(t *testing.T) {
	t.Parallel()
	runtimes := func(names ...string) (out []lifecycle.Configured) {
		for _, n := range names {
			out = append(out, configured(n, "runtime"))
		}
		return out
	}
	tests := map[string]struct {
		reason                        string
		set                           []lifecycle.Configured
		global, organization, project string
		missing                       []string
		typ                           string // "runtime" unless said
		asked                         string
		want                          string
		refused                       string
	}{
		"project's":               {reason: "the closest setting", set: runtimes("a", "b", "c"), global: "a", organization: "b", project: "c", want: "c"},
		"organization's":          {reason: "the project has none", set: runtimes("a", "b", "c"), global: "a", organization: "b", want: "b"},
		"global default":          {reason: "neither has one", set: runtimes("a", "b", "c"), global: "a", want: "a"},
		"the only one":            {reason: "there is no choice", set: runtimes("a"), want: "a"},
		"several":                 {reason: "a guess could move data to the wrong place", set: runtimes("a", "b", "c"), refused: "name one of a, b, c"},
		"none":                    {reason: "nobody could ever make it", refused: "no registered provisioner supports it"},
		"project's is missing":    {reason: "what a person chose is waited for, not replaced", set: runtimes("a", "b"), global: "a", project: "b", missing: []string{"b"}, want: "b"},
		"default is missing":      {reason: "it is waited for as well", set: runtimes("a", "b"), global: "a", missing: []string{"a"}, want: "a"},
		"the only one is missing": {reason: "a worker may start later", set: runtimes("a"), missing: []string{"a"}, want: "a"},

		"database, project's can not":        {reason: "one that does not support the type is never chosen", set: append(runtimes("a", "b"), configured("d", "database"), configured("e", "database")), global: "d", project: "a", organization: "b", typ: "database", want: "d"},
		"database, organization's can":       {reason: "the next setting that can", set: append(runtimes("a"), configured("d", "database"), configured("e", "database", "runtime")), global: "d", project: "a", organization: "e", typ: "database", want: "e"},
		"database, default can not, one can": {reason: "there is no choice", set: append(runtimes("a"), configured("d", "database")), global: "a", typ: "database", want: "d"},
		"database, default can not, two can": {reason: "a guess would be wrong half of the time", set: append(runtimes("a"), configured("d", "database"), configured("e", "database")), global: "a", typ: "database", refused: "name one of d, e"},
		"database, nobody can":               {reason: "never one that does not support it", set: runtimes("a", "b"), global: "a", typ: "database", refused: "no registered provisioner supports it"},
		"database, asked for":                {reason: "what is asked for comes first", set: append(runtimes("a"), configured("d", "database"), configured("e", "database")), global: "d", typ: "database", asked: "e", want: "e"},
		"database, asked for, missing":       {reason: "it is waited for", set: append(runtimes("a"), configured("d", "database"), configured("e", "database")), global: "d", missing: []string{"e"}, typ: "database", asked: "e", want: "e"},
		"database, asked for, can not":       {reason: "refused, not replaced", set: append(runtimes("a"), configured("d", "database")), global: "d", typ: "database", asked: "a", refused: "choose one of d"},
		"database, asked for, unknown":       {reason: "refused, not replaced", set: append(runtimes("a"), configured("d", "database")), global: "d", typ: "database", asked: "x", refused: "not registered"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bare(t)
			b.register(t, tt.global, tt.set...)
			for _, name := range tt.missing {
				b.exec(t, "UPDATE berth.provisioners SET seen_at = now() - interval '1 hour' WHERE name = $1", name)
			}
			id := uuid.New()
			err := b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				o, err := b.client.CreateOrganization(ctx, tx, "acme", tt.organization)
				if err != nil {
					return err
				}
				p, err := b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "web", Provisioner: tt.project})
				if err != nil {
					return err
				}
				if err := b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: id, ProjectID: p.ID}); err != nil || tt.typ == "" {
					return err
				}
				n := database("")
				n.Provisioner = tt.asked
				return b.client.AddResource(ctx, tx, n, id)
			})
			if tt.refused != "" {
				require.ErrorIs(t, err, lifecycle.ErrInvalid, tt.reason)
				require.ErrorContains(t, err, tt.refused, tt.reason)
				return
			}
			require.NoError(t, err, tt.reason)
			d, err := b.client.Get(t.Context(), b.pool, id)
			require.NoError(t, err)
			var got lifecycle.Resource
			for _, r := range d.Resources {
				if r.Type == cmp.Or(tt.typ, "runtime") {
					got = r
				}
			}
			require.Equal(t, tt.want, got.Provisioner, tt.reason)
			require.Equal(t, 1, b.count(t, "SELECT count(*) FROM berth.river_job WHERE queue = $1 AND (args ->> 'resource_id')::uuid = $2", "provisioner-"+tt.want, got.ID))
		})
	}
}

// TestChoiceIsMadeOnce proves that what has a place stays there, whatever the settings say later, and that a repeated create does
// not ask again.
func TestChoiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 1)
	b.register(t, "", configured("new", "runtime", "database"), configured("newer", "runtime", "database"))
	b.exec(t, "UPDATE berth.provisioners SET is_default = false")
	require.ErrorIs(t, b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return b.client.Create(ctx, tx, b.news(newIDs(1))...)
	}), lifecycle.ErrInvalid, "a new one would have to choose")
	before := b.everything(t)
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(b.client.Create(ctx, tx, b.news(ids)...), b.client.AddResource(ctx, tx, database(""), ids...))
	})
	require.Equal(t, before, b.everything(t))
}
