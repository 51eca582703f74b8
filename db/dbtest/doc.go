// Package dbtest gives every test a real database of its own, cloned from a migrated template, on a private server that all
// test processes of the machine share. TEST_DATABASE_URL makes it use a given server instead, where it needs CREATEDB.
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		d := dbtest.New(t)
//		d.Pool.Exec(...)
//	}
package dbtest
