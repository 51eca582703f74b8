package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/lifecycle"
)

// An admin service keeps its customers in a table of its own, in the same database.
const customersTable = `CREATE TABLE customers (
	email         text PRIMARY KEY,
	deployment_id uuid NOT NULL
)`

// signUp stores a customer and asks for everything that one needs. All of it happens or nothing: if the customer is already there,
// or the service dies before the commit, then there is no organization, no deployment and no job either.
func signUp(ctx context.Context, pool *pgxpool.Pool, berth *lifecycle.Client, email, company string, deployment uuid.UUID) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO customers (email, deployment_id) VALUES ($1, $2)", email, deployment); err != nil {
			return fmt.Errorf("store customer %q: %w", email, err)
		}
		organization, err := berth.CreateOrganization(ctx, tx, company, "")
		if err != nil {
			return err
		}
		project, err := berth.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: organization.ID, Name: "web"})
		if err != nil {
			return err
		}
		return berth.Create(ctx, tx, lifecycle.NewDeployment{ID: deployment, ProjectID: project.ID, Slots: 2})
	})
}

// A service signs a customer up. Workers take over as soon as the transaction is committed.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	berth, err := lifecycle.NewClient("admin", slog.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	deployment := uuid.New() // chosen by the caller
	err = signUp(ctx, pool, berth, "jane@example.com", "acme", deployment)
	var refused *lifecycle.Error
	switch {
	case errors.Is(err, lifecycle.ErrRetry):
		fmt.Println("another transaction was in the way: run it again")
	case errors.As(err, &refused):
		fmt.Printf("%s: not done, because %s; %s\n", refused.What, refused.Why, refused.Remedy)
	case err != nil:
		fmt.Println(err)
	}
}
