"""MQTT clients: conversion of packets to commands, and of responses to packets."""
