package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestRefusals proves that each refusal is typed, says of what, why and what to do, changes nothing, and leaves the caller's
// transaction as good as it was.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 2)
	here, unused := ids[0], uuid.New()
	going := ids[1]
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Delete(ctx, tx, going) })
	b.register(t, "", configured("other-a", "bucket"), configured("other-b", "bucket"))
	b.exec(t, "CREATE TABLE customers (n int)")

	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("k", i)] = "v"
	}
	some := func(from, to int) map[string]string {
		out := map[string]string{}
		for i := from; i < to; i++ {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}
	create := func(change func(*lifecycle.NewDeployment)) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			n := lifecycle.NewDeployment{ID: unused, ProjectID: b.project.ID}
			change(&n)
			return b.client.Create(ctx, tx, lifecycle.NewDeployment{ID: uuid.Max, ProjectID: b.project.ID}, n)
		}
	}
	update := func(change lifecycle.Change) call {
		return func(ctx context.Context, tx pgx.Tx) error { return b.client.Update(ctx, tx, change, here) }
	}
	add := func(n lifecycle.NewResource) call {
		return func(ctx context.Context, tx pgx.Tx) error { return b.client.AddResource(ctx, tx, n, here) }
	}
	args := func(raw string) call {
		return add(lifecycle.NewResource{Type: "database", Args: json.RawMessage(raw)})
	}
	runtime := func(raw string) call {
		return add(lifecycle.NewResource{Type: "runtime", Name: "second", Args: json.RawMessage(raw)})
	}
	org := func(name, def string) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.CreateOrganization(ctx, tx, name, def)
			return err
		}
	}
	project := func(change func(*lifecycle.NewProject)) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			o, err := b.client.OrganizationByName(ctx, tx, "ACME")
			if err != nil {
				return err
			}
			n := lifecycle.NewProject{OrganizationID: o.ID, Name: "shop"}
			change(&n)
			_, err = b.client.CreateProject(ctx, tx, n)
			return err
		}
	}
	owner, odd := b.organization(t, "acme").ID, baseA
	updateOrg := func(id uuid.UUID, change lifecycle.OrganizationChange) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.UpdateOrganization(ctx, tx, id, change)
			return err
		}
	}
	updateProject := func(id uuid.UUID, change lifecycle.ProjectChange) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.UpdateProject(ctx, tx, id, change)
			return err
		}
	}
	list := func(f lifecycle.Filter) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.List(ctx, tx, f)
			return err
		}
	}
	places := func(f lifecycle.PlaceFilter) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.Places(ctx, tx, f)
			return err
		}
	}
	d, err := b.client.Get(t.Context(), b.pool, here)
	require.NoError(t, err)
	held := d.Resources[0].ID
	register := func(defaultName string, set ...lifecycle.Configured) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			return b.client.RegisterProvisioners(ctx, tx, set, defaultName)
		}
	}
	const nul = "a\x00b"
	tests := map[string]struct {
		kind  error
		names string // what the text has to say
		call  call
	}{
		"create without an id":                  {lifecycle.ErrInvalid, "choose one", create(func(n *lifecycle.NewDeployment) { n.ID = uuid.Nil })},
		"create twice in one call":              {lifecycle.ErrInvalid, "twice", create(func(n *lifecycle.NewDeployment) { n.ID = uuid.Max })},
		"create in no project":                  {lifecycle.ErrNotFound, unused.String(), create(func(n *lifecycle.NewDeployment) { n.ProjectID = unused })},
		"create in another environment":         {lifecycle.ErrConflict, here.String(), create(func(n *lifecycle.NewDeployment) { n.ID, n.Environment = here, "dev" })},
		"create what is being deleted":          {lifecycle.ErrConflict, going.String(), create(func(n *lifecycle.NewDeployment) { n.ID = going })},
		"create with an odd environment":        {lifecycle.ErrInvalid, `"Prod!"`, create(func(n *lifecycle.NewDeployment) { n.Environment = "Prod!" })},
		"create with NUL":                       {lifecycle.ErrInvalid, `"a\x00b"`, create(func(n *lifecycle.NewDeployment) { n.Environment = nul })},
		"create with slots below one":           {lifecycle.ErrInvalid, "slots -1", create(func(n *lifecycle.NewDeployment) { n.Slots = -1 })},
		"create with slots beyond int":          {lifecycle.ErrInvalid, "slots 2147483648", create(func(n *lifecycle.NewDeployment) { n.Slots = 1 << 31 })},
		"create with an odd version":            {lifecycle.ErrInvalid, `"1.x"`, create(func(n *lifecycle.NewDeployment) { n.Version = "1.x" })},
		"create with an odd key":                {lifecycle.ErrInvalid, `"-"`, create(func(n *lifecycle.NewDeployment) { n.Annotations = map[string]string{"-": ""} })},
		"create with a key of ours":             {lifecycle.ErrInvalid, `"project"`, create(func(n *lifecycle.NewDeployment) { n.Annotations = map[string]string{"project": "x"} })},
		"create with a value that is no text":   {lifecycle.ErrInvalid, `"k"`, create(func(n *lifecycle.NewDeployment) { n.Annotations = map[string]string{"k": "\xff"} })},
		"create with a value with NUL":          {lifecycle.ErrInvalid, `"k"`, create(func(n *lifecycle.NewDeployment) { n.Annotations = map[string]string{"k": nul} })},
		"create with a long value":              {lifecycle.ErrInvalid, "1025 bytes", create(func(n *lifecycle.NewDeployment) { n.Annotations = map[string]string{"k": strings.Repeat("v", 1025)} })},
		"create with many annotations":          {lifecycle.ErrInvalid, "at most 64", create(func(n *lifecycle.NewDeployment) { n.Annotations = many })},
		"create with many beside the project's": {lifecycle.ErrInvalid, "at most 64", create(func(n *lifecycle.NewDeployment) { n.Annotations = some(0, 64) })},

		"update nothing":           {lifecycle.ErrInvalid, "changes nothing", update(lifecycle.Change{})},
		"update to slots below 1":  {lifecycle.ErrInvalid, "slots -3", update(lifecycle.Change{Slots: -3})},
		"update to an odd version": {lifecycle.ErrInvalid, `"latest "`, update(lifecycle.Change{Version: "latest "})},
		"update to many":           {lifecycle.ErrInvalid, here.String(), update(lifecycle.Change{Annotations: some(0, 64)})},
		"update a key of ours":     {lifecycle.ErrInvalid, `"organization"`, update(lifecycle.Change{Annotations: map[string]string{"organization": "x"}})},
		"forget a key of ours":     {lifecycle.ErrInvalid, `"organization"`, update(lifecycle.Change{Forget: []string{"organization"}})},
		"forget with NUL":          {lifecycle.ErrInvalid, `"a\x00b"`, update(lifecycle.Change{Forget: []string{nul}})},
		"forget no text":           {lifecycle.ErrInvalid, `"\xff"`, update(lifecycle.Change{Forget: []string{"\xff"}})},
		"forget too much":          {lifecycle.ErrInvalid, "at most 64", update(lifecycle.Change{Forget: make([]string, 65)})},

		"update an organization by nothing":        {lifecycle.ErrInvalid, "changes nothing", updateOrg(owner, lifecycle.OrganizationChange{})},
		"update what is no organization":           {lifecycle.ErrNotFound, unused.String(), updateOrg(unused, lifecycle.OrganizationChange{DefaultProvisioner: new(string)})},
		"update an organization to what is no one": {lifecycle.ErrInvalid, "choose one of static-a", updateOrg(owner, lifecycle.OrganizationChange{DefaultProvisioner: &odd})},
		"update a project by nothing":              {lifecycle.ErrInvalid, "changes nothing", updateProject(b.project.ID, lifecycle.ProjectChange{})},
		"update what is no project":                {lifecycle.ErrNotFound, unused.String(), updateProject(unused, lifecycle.ProjectChange{Slots: 1})},
		"update a project to what is no one":       {lifecycle.ErrInvalid, "choose one of static-a", updateProject(b.project.ID, lifecycle.ProjectChange{Provisioner: &odd, Slots: 3})},
		"update a project to slots below 1":        {lifecycle.ErrInvalid, "slots -3", updateProject(b.project.ID, lifecycle.ProjectChange{Slots: -3})},
		"update a project to an odd version":       {lifecycle.ErrInvalid, `"1.x"`, updateProject(b.project.ID, lifecycle.ProjectChange{Version: "1.x"})},
		"update a project to many":                 {lifecycle.ErrInvalid, `"acme/web"`, updateProject(b.project.ID, lifecycle.ProjectChange{Annotations: some(0, 64)})},
		"update a project's key of ours":           {lifecycle.ErrInvalid, `"organization"`, updateProject(b.project.ID, lifecycle.ProjectChange{Forget: []string{"organization"}})},
		"delete an organization in use":            {lifecycle.ErrConflict, "it has 2 deployments, 1 of them being deleted already", func(ctx context.Context, tx pgx.Tx) error { return b.client.DeleteOrganization(ctx, tx, owner) }},
		"delete a project in use":                  {lifecycle.ErrConflict, `project "acme/web": it has 2 deployments`, func(ctx context.Context, tx pgx.Tx) error { return b.client.DeleteProject(ctx, tx, b.project.ID) }},

		"start what is not there":     {lifecycle.ErrNotFound, unused.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Start(ctx, tx, here, unused) }},
		"stop what is not there":      {lifecycle.ErrNotFound, unused.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Stop(ctx, tx, here, unused) }},
		"restart what is not there":   {lifecycle.ErrNotFound, unused.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Restart(ctx, tx, here, unused) }},
		"delete what never was":       {lifecycle.ErrNotFound, unused.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Delete(ctx, tx, here, unused) }},
		"delete nil":                  {lifecycle.ErrNotFound, uuid.Nil.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Delete(ctx, tx, here, uuid.Nil) }},
		"start what is being deleted": {lifecycle.ErrConflict, going.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Start(ctx, tx, here, going) }},
		"stop what is being deleted":  {lifecycle.ErrConflict, going.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Stop(ctx, tx, here, going) }},

		"add the runtime":                  {lifecycle.ErrInvalid, "use Update", add(lifecycle.NewResource{Type: "runtime"})},
		"add an odd type":                  {lifecycle.ErrInvalid, `"Data Base"`, add(lifecycle.NewResource{Type: "Data Base"})},
		"add a type with NUL":              {lifecycle.ErrInvalid, `"a\x00b"`, add(lifecycle.NewResource{Type: nul})},
		"add an odd name":                  {lifecycle.ErrInvalid, `"X"`, add(lifecycle.NewResource{Type: "database", Name: "X"})},
		"add what nobody supports":         {lifecycle.ErrInvalid, "no registered provisioner supports it", add(lifecycle.NewResource{Type: "queue"})},
		"add what several support":         {lifecycle.ErrInvalid, "name one of other-a, other-b", add(lifecycle.NewResource{Type: "bucket"})},
		"add at one that is not known":     {lifecycle.ErrInvalid, "choose one of other-a, other-b", add(lifecycle.NewResource{Type: "bucket", Provisioner: "x\x00"})},
		"add at one that can not":          {lifecycle.ErrInvalid, "does not support", add(lifecycle.NewResource{Type: "bucket", Provisioner: staticA})},
		"add at one where none can":        {lifecycle.ErrInvalid, "configure one", add(lifecycle.NewResource{Type: "queue", Provisioner: staticA})},
		"add what exists elsewhere":        {lifecycle.ErrConflict, `at provisioner "base-a"`, add(lifecycle.NewResource{Type: "database", Provisioner: "base-b"})},
		"args that are no JSON":            {lifecycle.ErrInvalid, "not JSON", args(`{"a": `)},
		"args that are two":                {lifecycle.ErrInvalid, "not JSON", args(`{} {}`)},
		"args that are a list":             {lifecycle.ErrInvalid, "not a JSON object", args(`[1]`)},
		"args that are null":               {lifecycle.ErrInvalid, "not a JSON object", args(`null`)},
		"args with NUL":                    {lifecycle.ErrInvalid, "NUL", args(`{"a": "x\u0000"}`)},
		"args with NUL in a key":           {lifecycle.ErrInvalid, "NUL", args(`{"a\u0000": 1}`)},
		"args with half a character":       {lifecycle.ErrInvalid, "half of a character", args(`{"a": "\ud83d"}`)},
		"args with the wrong half first":   {lifecycle.ErrInvalid, "half of a character", args(`{"a": "\ude00\ud83d"}`)},
		"args that are not UTF-8":          {lifecycle.ErrInvalid, "not UTF-8", args("{\"a\": \"\xff\"}")},
		"args with a number too large":     {lifecycle.ErrInvalid, "digits", args(`{"a": 1e200000}`)},
		"args with a number too small":     {lifecycle.ErrInvalid, "digits", args(`{"a": 1e-200000}`)},
		"args with a long number":          {lifecycle.ErrInvalid, "digits", args(`{"a": 1` + strings.Repeat("0", 200000) + `}`)},
		"args that nest deep":              {lifecycle.ErrInvalid, "64 levels", args(strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65))},
		"args that are huge":               {lifecycle.ErrInvalid, "bytes", args(`{"a": "` + strings.Repeat("x", 300000) + `"}`)},
		"runtime args without slots":       {lifecycle.ErrInvalid, "slots 0", runtime(`{}`)},
		"runtime args mistyped":            {lifecycle.ErrInvalid, "did you mean version", runtime(`{"slots": 1, "versio": "1.2.3"}`)},
		"runtime args in another case":     {lifecycle.ErrInvalid, "did you mean slots", runtime(`{"SLOTS": 1}`)},
		"runtime args with an odd version": {lifecycle.ErrInvalid, `"x"`, runtime(`{"slots": 1, "version": "x"}`)},
		"runtime args with an odd place":   {lifecycle.ErrInvalid, `"X"`, runtime(`{"slots": 1, "environment": "X"}`)},
		"remove the runtime": {lifecycle.ErrInvalid, "stop or delete", func(ctx context.Context, tx pgx.Tx) error {
			return b.client.RemoveResource(ctx, tx, "runtime", "", here)
		}},
		"remove an odd name": {lifecycle.ErrInvalid, `"a\x00b"`, func(ctx context.Context, tx pgx.Tx) error {
			return b.client.RemoveResource(ctx, tx, "database", nul, here)
		}},

		"organization that exists":         {lifecycle.ErrConflict, `"Acme"`, org("Acme", "")},
		"organization with an odd name":    {lifecycle.ErrInvalid, `"a b"`, org("a b", "")},
		"organization with NUL":            {lifecycle.ErrInvalid, `"a\x00b"`, org(nul, "")},
		"organization with a long name":    {lifecycle.ErrInvalid, `...`, org(strings.Repeat("a", 1000), "")},
		"organization without a name":      {lifecycle.ErrInvalid, `""`, org("", "")},
		"organization at one not known":    {lifecycle.ErrInvalid, "choose one of static-a", org("new", "static-b")},
		"organization at one that can not": {lifecycle.ErrInvalid, `"runtime"`, org("new", baseA)},
		"project that exists":              {lifecycle.ErrConflict, `"acme/WEB"`, project(func(n *lifecycle.NewProject) { n.Name = "WEB" })},
		"project of no organization":       {lifecycle.ErrNotFound, unused.String(), project(func(n *lifecycle.NewProject) { n.OrganizationID = unused })},
		"project with an odd name":         {lifecycle.ErrInvalid, `"a/b"`, project(func(n *lifecycle.NewProject) { n.Name = "a/b" })},
		"project with odd slots":           {lifecycle.ErrInvalid, "slots -1", project(func(n *lifecycle.NewProject) { n.Slots = -1 })},
		"project with an odd version":      {lifecycle.ErrInvalid, `"v"`, project(func(n *lifecycle.NewProject) { n.Version = "v" })},
		"project with a key of ours":       {lifecycle.ErrInvalid, `"project"`, project(func(n *lifecycle.NewProject) { n.Annotations = map[string]string{"project": "x"} })},
		"project at one not known":         {lifecycle.ErrInvalid, "not registered", project(func(n *lifecycle.NewProject) { n.Provisioner = nul })},
		"project at one that can not":      {lifecycle.ErrInvalid, "does not support", project(func(n *lifecycle.NewProject) { n.Provisioner = baseA })},
		"organization of that name": {lifecycle.ErrNotFound, `"nobody"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.OrganizationByName(ctx, tx, "nobody")
			return err
		}},
		"organization of a name with NUL": {lifecycle.ErrNotFound, `"a\x00b"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.OrganizationByName(ctx, tx, nul)
			return err
		}},
		"project of that name": {lifecycle.ErrNotFound, `"acme/nothing"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.ProjectByName(ctx, tx, "acme", "nothing")
			return err
		}},
		"project of a name that is no text": {lifecycle.ErrNotFound, `"acme/\xff"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.ProjectByName(ctx, tx, "acme", "\xff")
			return err
		}},
		"get what is not there":          {lifecycle.ErrNotFound, unused.String(), func(ctx context.Context, tx pgx.Tx) error { _, err := b.client.Get(ctx, tx, unused); return err }},
		"list in a state that is none":   {lifecycle.ErrInvalid, "pending, running", list(lifecycle.Filter{State: "run"})},
		"list an organization with NUL":  {lifecycle.ErrInvalid, `"a\x00b"`, list(lifecycle.Filter{Organization: nul})},
		"list a project that is no text": {lifecycle.ErrInvalid, `"\xff"`, list(lifecycle.Filter{Project: "\xff"})},
		"list an odd provisioner":        {lifecycle.ErrInvalid, `"A"`, list(lifecycle.Filter{Provisioner: "A"})},
		"list resources beyond a page":   {lifecycle.ErrInvalid, "limit 1001", places(lifecycle.PlaceFilter{Limit: 1001})},
		"list resources nowhere":         {lifecycle.ErrInvalid, `"No Where"`, places(lifecycle.PlaceFilter{Provisioner: "No Where"})},
		"list resources of an odd type":  {lifecycle.ErrInvalid, `"a\x00b"`, places(lifecycle.PlaceFilter{Type: nul})},
		"list resources for odd reasons": {lifecycle.ErrInvalid, `"a\x00b"`, places(lifecycle.PlaceFilter{Reason: nul})},
		"list organizations after NUL": {lifecycle.ErrInvalid, `"a\x00b"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.Organizations(ctx, tx, nul, 1)
			return err
		}},
		"list projects after NUL": {lifecycle.ErrInvalid, `"a\x00b"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.Projects(ctx, tx, "a", nul, 1)
			return err
		}},
		"list provisioners after NUL": {lifecycle.ErrInvalid, `"a\x00b"`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.ProvisionerPage(ctx, tx, nul, 1)
			return err
		}},
		"list too many events": {lifecycle.ErrInvalid, "limit 1001", func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.client.Events(ctx, tx, here, 0, 1001)
			return err
		}},
		"reconcile what is not there": {lifecycle.ErrNotFound, unused.String(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Reconcile(ctx, tx, held, unused) }},
		"list fewer than none":        {lifecycle.ErrInvalid, "limit -1", list(lifecycle.Filter{Limit: -1})},
		"list beyond int32":           {lifecycle.ErrInvalid, "limit 4294967297", list(lifecycle.Filter{Limit: 1<<32 + 1})},

		"register an odd name":        {lifecycle.ErrInvalid, `"a--b"`, register("", configured("a--b", "runtime"))},
		"register a long name":        {lifecycle.ErrInvalid, "up to 48", register("", configured(strings.Repeat("a", 49), "runtime"))},
		"register a name twice":       {lifecycle.ErrInvalid, "twice", register("", configured("a", "runtime"), configured("b", "runtime"), configured("a", "runtime"))},
		"register without a type":     {lifecycle.ErrInvalid, `""`, register("", lifecycle.Configured{Name: "a"})},
		"register what makes nothing": {lifecycle.ErrInvalid, "supports no type", register("", configured("a"))},
		"register an odd type":        {lifecycle.ErrInvalid, `"a,b"`, register("", configured("a", "a,b"))},
		"register an odd default":     {lifecycle.ErrInvalid, `"b"`, register("b", configured("a", "runtime"))},
		"register a negative timeout": {lifecycle.ErrInvalid, "below zero", register("", func() lifecycle.Configured { c := configured("a", "runtime"); c.Info.Timeout = -1; return c }())},
		"register with another type":  {lifecycle.ErrConflict, `of type "scripted" with 2 resources and configured as "static"`, register("new", configured("new", "runtime"), lifecycle.Configured{Name: staticA, Type: "static", Info: configured("", "runtime").Info})},
	}
	for name, tt := range tests {
		before := b.everything(t)
		err := b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			refused := tt.call(ctx, tx)
			// The caller goes on as if nothing had been.
			var one int
			require.NoError(t, tx.QueryRow(ctx, "SELECT 1").Scan(&one), "%s: after %v", name, refused)
			_, err := tx.Exec(ctx, "INSERT INTO customers VALUES (1)")
			require.NoError(t, err, name)
			return refused
		})
		require.ErrorIs(t, err, tt.kind, name)
		var typed *lifecycle.Error
		require.ErrorAs(t, err, &typed, name)
		require.NotEmpty(t, typed.What, name)
		require.NotEmpty(t, typed.Why, name)
		require.NotEmpty(t, typed.Remedy, name)
		require.ErrorContains(t, err, tt.names, name)
		require.NotContains(t, err.Error(), "\n", "%s: one line", name)
		require.Less(t, len(err.Error()), 400, name)
		require.Equal(t, before, b.everything(t), "%s: nothing was changed", name)
	}
	require.Equal(t, len(tests), b.count(t, "SELECT count(*) FROM customers"), "each caller's own row is there")
}

// everything is a digest of all that Berth stores.
func (b *bundle) everything(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, table := range []string{"organizations", "projects", "provisioners", "deployments", "provisioner_resources", "deleted_resources", "events", "river_job"} {
		var n int
		var sum *string
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM berth."+table+" x").Scan(&n, &sum))
		fmt.Fprintln(&all, table, n, deref(sum))
	}
	return all.String()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
